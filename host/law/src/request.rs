//! Requests: what a component's type asks for.

use crate::capability::{Authority, Capability, Export, ProcessBound, bound_form};
use std::fmt;

/// Something that a component asks for by its type alone: an export that wants to be called, an import that wants to be linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Calls of this export.
    Export(Export),
    /// `scan`: any grant of `files` serves it.
    Files,
    /// `process`: any program's grant serves it.
    Process,
    /// Any grant of this authority serves it.
    Authority(Authority),
}

/// What an import is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportKind {
    /// Every plugin has it without asking.
    AlwaysGranted,
    /// Standard library over an empty context: no folders, no network, no environment. Plain WASI, sockets included (they refuse).
    Standard,
    /// Types only: nothing to link.
    Types,
    /// Has to be granted.
    Request(Request),
    /// Nothing that the contract knows.
    Unknown,
}

/// Interfaces of the world `granted`.
const ALWAYS_GRANTED: [&str; 8] =
    ["context", "log", "settings", "progress", "tool-updates", "reply", "state", "secrets"];
const TYPES_ONLY: [&str; 5] = ["types", "call-types", "view-types", "messages", "tool-types"];
const STANDARD: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// The interface's name within `pith:plugin`, without its version. None where the name is of another package.
fn own(name: &str) -> Option<&str> {
    let interface = name.strip_prefix("pith:plugin/")?;
    Some(interface.split_once('@').map_or(interface, |(interface, _)| interface))
}

/// What a component's import asks for. `name` as the component has it, such as `pith:plugin/scan@0.1.0`. Says nothing of versions.
pub fn import_kind(name: &str) -> ImportKind {
    if STANDARD.iter().any(|package| name.starts_with(package)) {
        return ImportKind::Standard;
    }
    if name.starts_with("wasi:http/") {
        return ImportKind::Request(Request::Authority(Authority::Http));
    }
    match own(name) {
        Some(name) if ALWAYS_GRANTED.contains(&name) => ImportKind::AlwaysGranted,
        Some(name) if TYPES_ONLY.contains(&name) => ImportKind::Types,
        Some("scan") => ImportKind::Request(Request::Files),
        Some("process") => ImportKind::Request(Request::Process),
        Some(name) => match Authority::named(name) {
            Some(authority) => ImportKind::Request(Request::Authority(authority)),
            None => ImportKind::Unknown,
        },
        None => ImportKind::Unknown,
    }
}

/// What a component's export asks for. None where the contract does not know it.
pub fn export_request(name: &str) -> Option<Request> {
    own(name).and_then(Export::named).map(Request::Export)
}

impl Request {
    /// Whether one grant serves it.
    pub fn is_served_by(self, capability: &Capability) -> bool {
        match (self, capability) {
            (Self::Export(asked), Capability::Export(given)) => asked == *given,
            (Self::Files, Capability::Files(_)) => true,
            (Self::Process, Capability::Process(ProcessBound::Program(_))) => true,
            (Self::Authority(asked), Capability::Authority(given, _)) => asked == *given,
            _ => false,
        }
    }

    /// What `--grant` would have to be given, `NAME:CAPABILITY[=BOUND]`; the bound in capitals is the person's to choose.
    pub fn argument(self, plugin: &str) -> String {
        match self {
            Self::Export(export) => format!("{plugin}:{export}"),
            Self::Files => format!("{plugin}:files=workspace"),
            Self::Process => format!("{plugin}:process=PROGRAM"),
            Self::Authority(authority) => match bound_form(authority) {
                form if authority.bound_law() == crate::BoundLaw::Required => format!("{plugin}:{authority}={form}"),
                _ => format!("{plugin}:{authority}"),
            },
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Export(export) => write!(f, "{export}"),
            Self::Files => f.write_str("files"),
            Self::Process => f.write_str("process"),
            Self::Authority(authority) => write!(f, "{authority}"),
        }
    }
}

/// The requests that no grant serves, each once, in a stable order.
pub fn missing(requests: &[Request], grants: &[Capability]) -> Vec<Request> {
    let mut unserved: Vec<Request> =
        requests.iter().copied().filter(|request| !grants.iter().any(|grant| request.is_served_by(grant))).collect();
    unserved.sort_unstable();
    unserved.dedup();
    unserved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_type_asks_for_what_its_imports_and_exports_say() {
        for (name, kind) in [
            ("pith:plugin/log@0.1.0", ImportKind::AlwaysGranted),
            ("pith:plugin/types@0.1.0", ImportKind::Types),
            ("pith:plugin/scan@0.1.0", ImportKind::Request(Request::Files)),
            ("pith:plugin/process@0.1.0", ImportKind::Request(Request::Process)),
            ("pith:plugin/dialog@0.1.0", ImportKind::Request(Request::Authority(Authority::Dialog))),
            ("pith:plugin/root@0.1.0", ImportKind::Unknown),
            ("wasi:filesystem/types@0.2.6", ImportKind::Standard),
            ("wasi:sockets/tcp@0.2.6", ImportKind::Standard),
            ("wasi:http/outgoing-handler@0.2.6", ImportKind::Request(Request::Authority(Authority::Http))),
            ("wasi:keyvalue/store@0.2.0", ImportKind::Unknown),
            ("log", ImportKind::Unknown),
        ] {
            assert_eq!(import_kind(name), kind, "{name}");
        }
        assert_eq!(export_request("pith:plugin/tool-gate@0.1.0"), Some(Request::Export(Export::ToolGate)));
        assert_eq!(export_request("pith:plugin/log@0.1.0"), None);
        assert_eq!(export_request("other:plugin/tools@0.1.0"), None);
    }

    #[test]
    fn every_missing_one_is_named_once_with_an_argument_that_reads_back() {
        let requests = [
            Request::Process,
            Request::Export(Export::ToolFilter),
            Request::Files,
            Request::Authority(Authority::Http),
            Request::Process,
        ];
        let unserved = missing(&requests, &["process=env:X".parse().unwrap()]);
        assert_eq!(unserved.len(), 4);
        for request in unserved {
            let grant = crate::parse_grant(&request.argument("mine")).unwrap();
            assert!(request.is_served_by(&grant.capability), "{grant}");
        }
        let grants =
            ["files=workspace", "process=git", "tool-filter", "http=https://a"].map(|text| text.parse().unwrap());
        assert_eq!(missing(&requests, &grants), []);
    }

    fn any_request() -> impl Strategy<Value = Request> {
        prop_oneof![
            prop::sample::select(Export::ALL).prop_map(Request::Export),
            Just(Request::Files),
            Just(Request::Process),
            prop::sample::select(Authority::ALL).prop_map(Request::Authority),
        ]
    }

    proptest! {
        #[test]
        fn without_grants_everything_is_missing_and_a_grant_takes_away_only_its_own(
            requests in prop::collection::vec(any_request(), 0..8),
            which in any::<prop::sample::Index>(),
        ) {
            let all = missing(&requests, &[]);
            for request in &requests {
                prop_assert!(all.contains(request));
            }
            if !requests.is_empty() {
                let served = requests[which.index(requests.len())];
                let grant: Capability = crate::parse_grant(&served.argument("p")).unwrap().capability;
                let rest = missing(&requests, &[grant]);
                prop_assert!(!rest.contains(&served));
                prop_assert_eq!(rest.len() + 1, all.len());
            }
        }
    }
}
