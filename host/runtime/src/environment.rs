//! The environment, read once: what Pith takes from it, and what its children are not given.

use std::{
    ffi::{OsStr, OsString},
    fmt,
};

/// A variable that Pith reads a credential from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialVariable {
    /// The variable.
    pub name: &'static str,
    /// Whose credential.
    pub provider: &'static str,
}

/// Every variable that Pith reads a credential from, in the order in which providers are preferred. No child is given one of them.
pub const CREDENTIAL_VARIABLES: [CredentialVariable; 2] = [
    CredentialVariable { name: "ANTHROPIC_API_KEY", provider: "anthropic" },
    CredentialVariable { name: "OPENAI_API_KEY", provider: "openai" },
];

/// The variables that say where a provider is reached, by provider.
pub const BASE_URL_VARIABLES: [(&str, &str); 2] = [("anthropic", "ANTHROPIC_BASE_URL"), ("openai", "OPENAI_BASE_URL")];

/// The variable that names a model.
pub const MODEL_VARIABLE: &str = "PITH_MODEL";

/// A snapshot of an environment. `Debug` shows names only.
#[derive(Clone, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// This process's.
    pub fn from_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The variable's text. An empty one counts as absent, and so does one that is not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(present, _)| present == OsStr::new(name))?;
        value.to_str().filter(|text| !text.trim().is_empty())
    }

    /// The key of a provider.
    pub(crate) fn key(&self, provider: &str) -> Option<&str> {
        CREDENTIAL_VARIABLES.iter().filter(|known| known.provider == provider).find_map(|known| self.get(known.name))
    }

    /// The base URL that is set for a provider.
    pub(crate) fn base_url(&self, provider: &str) -> Option<&str> {
        BASE_URL_VARIABLES.iter().find(|(known, _)| *known == provider).and_then(|(_, name)| self.get(name))
    }

    /// What children are given: everything but credentials.
    pub fn for_children(&self) -> Vec<(OsString, OsString)> {
        pith_os::clean_environment(self.0.iter().cloned(), &CREDENTIAL_VARIABLES.map(|known| known.name))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_is_absent_and_children_get_no_key() {
        let environment: Environment = [
            ("ANTHROPIC_API_KEY", ""),
            ("OPENAI_API_KEY", "sk-secret"),
            ("OPENAI_BASE_URL", "http://localhost:1/v1"),
            ("PATH", "/bin"),
        ]
        .into_iter()
        .collect();
        assert_eq!(environment.key("anthropic"), None);
        assert_eq!(environment.key("openai"), Some("sk-secret"));
        assert_eq!(environment.base_url("openai"), Some("http://localhost:1/v1"));
        assert_eq!(environment.base_url("scripted"), None);
        let names: Vec<OsString> = environment.for_children().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["OPENAI_BASE_URL", "PATH"]);
        assert!(!format!("{environment:?}").contains("sk-secret"));
    }
}
