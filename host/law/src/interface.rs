//! Every interface of the contract: its sentence, and what it reads, sends and steers. `inspect` makes its words from these.

/// On which side of the contract an interface stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The plugin exports it: a power over the work.
    Export,
    /// The plugin imports it: an authority.
    Import,
}

/// One interface of `pith:plugin`, or a standard one that is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, without package and version.
    pub name: &'static str,
    /// Export or import.
    pub side: Side,
    /// What it is, for a person: goes on from "This plugin ...".
    pub sentence: &'static str,
    /// What it learns; empty for nothing.
    pub reads: &'static str,
    /// Where data can leave to; empty for nowhere.
    pub sends: &'static str,
    /// How it can change what the model sees or does; empty for not at all.
    pub steers: &'static str,
}

/// The interface that is called so on that side.
pub fn interface(side: Side, name: &str) -> Option<&'static Interface> {
    INTERFACES.iter().find(|interface| interface.side == side && interface.name == name)
}

const fn export(
    name: &'static str,
    sentence: &'static str,
    reads: &'static str,
    sends: &'static str,
    steers: &'static str,
) -> Interface {
    Interface { name, side: Side::Export, sentence, reads, sends, steers }
}

const fn import(
    name: &'static str,
    sentence: &'static str,
    reads: &'static str,
    sends: &'static str,
    steers: &'static str,
) -> Interface {
    Interface { name, side: Side::Import, sentence, reads, sends, steers }
}

/// All of them, exports first, in the order of `wit/`.
pub const INTERFACES: &[Interface] = &[
    export(
        "tools",
        "offers tools to the model",
        "its own calls' input",
        "its own results, to the model",
        "by descriptions and results, marked",
    ),
    export(
        "tool-gate",
        "judges every tool call before it runs",
        "every call's input",
        "",
        "by refusing; its reasons, marked",
    ),
    export(
        "tool-rewrite",
        "changes the input of the tools named",
        "inputs of the tools named",
        "",
        "acts as the tools named",
    ),
    export(
        "tool-filter",
        "sees and may replace every tool result",
        "results of the tools named",
        "",
        "what the model believes happened",
    ),
    export(
        "request-hook",
        "sees and may change what is sent to a model",
        "the whole conversation",
        "",
        "what the model sees",
    ),
    export(
        "context-hook",
        "edits the messages that the model reads",
        "the whole conversation",
        "",
        "what the model sees",
    ),
    export("prompt", "adds sections to the system prompt", "", "", "the system prompt"),
    export("input-hook", "sees and may change what is typed", "what is typed", "", "the user's message"),
    export("stop-hook", "may have the agent go on", "how a run ended", "", "by going on, marked"),
    export(
        "session-gate",
        "may stop changes of the session",
        "what is about to happen to the session",
        "",
        "by refusing",
    ),
    export("observer", "is told what happened", "the whole conversation", "", ""),
    export("compactor", "writes the summary that replaces older messages", "the whole conversation", "", "history"),
    export("commands", "adds slash commands", "their arguments", "", ""),
    export("entry-view", "draws its own entries", "its own entries", "", ""),
    export(
        "provider",
        "speaks to a model in the host's stead",
        "the whole conversation",
        "by its own http",
        "everything the model says",
    ),
    import("context", "knows where in the work it is called", "its own call", "", ""),
    import("log", "writes lines to the log file", "", "to disk, its own place", ""),
    import("settings", "reads its own settings", "its own settings", "", ""),
    import("progress", "shows partial output", "", "to disk, its own place", ""),
    import("tool-updates", "has its tools asked for again", "", "", ""),
    import("reply", "gives the pieces of a model's reply", "", "", ""),
    import("state", "keeps its own state in the session", "its own state", "to disk, its own place", ""),
    import("secrets", "knows whether its secrets are set", "", "in the user's name, to the hosts granted", ""),
    import("session-read", "reads the conversation", "its own kinds, or the whole conversation", "", ""),
    import("session-labels", "names the session and its entries", "", "to disk, its own place", "labels and names"),
    import("agent", "puts messages before the model", "", "", "messages, marked"),
    import("tool-calls", "calls other tools", "as the tools named", "as the tools named", "as the tools named"),
    import("models", "asks a model", "", "to that model's provider", ""),
    import("ui", "shows things to the person", "", "", "the person"),
    import("dialog", "asks the person", "what the person answers", "", "the person"),
    import("storage", "keeps text outside any session", "its own", "to disk, its own place", ""),
    import("http", "sends HTTP requests to the hosts granted", "what those hosts answer", "to the hosts granted", ""),
    import("process", "runs the programs granted", "what those programs can", "what those programs can", "by files"),
    import("scan", "searches the folders granted", "files of the folders granted", "", ""),
    import(
        "files",
        "works on the files of the folders granted",
        "files of the folders granted",
        "to files that others read, where writable",
        "by files",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Export};

    #[test]
    fn every_capability_has_its_sentence() {
        for export in Export::ALL {
            assert!(interface(Side::Export, export.as_str()).is_some(), "{export}");
        }
        for authority in Authority::ALL {
            assert!(interface(Side::Import, authority.as_str()).is_some(), "{authority}");
        }
    }

    /// The contract and this table name the same interfaces: a new one needs its tags.
    #[test]
    fn the_table_is_the_contract() {
        for (file, side) in [
            (include_str!("../../../wit/exports.wit"), Side::Export),
            (include_str!("../../../wit/imports.wit"), Side::Import),
        ] {
            let mut in_contract: Vec<&str> =
                file.lines().filter_map(|line| line.strip_prefix("interface ")?.strip_suffix(" {")).collect();
            let mut in_table: Vec<&str> = INTERFACES
                .iter()
                .filter(|interface| interface.side == side && interface.name != "files")
                .map(|interface| interface.name)
                .collect();
            in_contract.sort_unstable();
            in_table.sort_unstable();
            assert_eq!(in_contract, in_table);
        }
    }
}
