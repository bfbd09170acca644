//! Paths that may not be written.
//!
//! A rule is one or more names, divided by `/`, each a [`glob`](crate::glob). It protects whatever has these names in a row
//! anywhere in its path, so a folder's rule protects all that lies in it: `.git/`, `*.pem`, `.github/workflows`. A rule that
//! starts with `/` counts from the root. `!` makes an exception; the last rule that fits decides. Case does not matter.

use crate::glob;

/// The rule that protects this path; none where it may be written.
pub fn protecting<'r>(path: &str, rules: impl IntoIterator<Item = &'r str>) -> Option<&'r str> {
    let names = names(path);
    let mut protecting = None;
    for rule in rules {
        match rule.strip_prefix('!') {
            Some(exception) if protecting.is_some() && fits(&names, exception) => protecting = None,
            None if fits(&names, rule) => protecting = Some(rule),
            _ => {}
        }
    }
    protecting
}

fn fits(names: &[&str], rule: &str) -> bool {
    let wanted = || rule.split('/').filter(|name| !name.is_empty());
    let count = wanted().count();
    if count == 0 || count > names.len() {
        return false;
    }
    let fits_at = |at: usize| wanted().zip(&names[at..]).all(|(wanted, name)| glob::matches_any_case(wanted, name));
    if rule.starts_with('/') { fits_at(0) } else { (0..=names.len() - count).any(fits_at) }
}

/// The names of a path, without `.`, `..` and what `..` takes back.
fn names(path: &str) -> Vec<&str> {
    let path = path.strip_prefix('@').unwrap_or(path);
    let mut names = Vec::new();
    for name in path.split(['/', '\\']) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::protecting;

    const RULES: [&str; 6] = [".git/", ".env", ".env.*", "!.env.example", "*.pem", "/etc"];

    #[test]
    fn rules_protect_names_and_what_lies_in_them() {
        for (path, expected) in [
            (".git/config", Some(".git/")),
            ("sub/.git/hooks/pre-commit", Some(".git/")),
            (".git", Some(".git/")),
            ("@.git/config", Some(".git/")),
            ("/w/a/../.GIT/config", Some(".git/")),
            (".gitignore", None),
            ("src/.git/../a", None),
            (".env", Some(".env")),
            ("app/.env.local", Some(".env.*")),
            (".env.example", None),
            ("environment", None),
            ("keys/server.pem", Some("*.pem")),
            ("/etc/passwd", Some("/etc")),
            ("w/etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(protecting(path, RULES), expected, "{path}");
        }
    }

    #[test]
    fn a_rule_of_several_names_fits_them_in_a_row() {
        let rules = [".github/workflows"];
        assert_eq!(protecting("x/.github/workflows/ci.yml", rules), Some(rules[0]));
        assert_eq!(protecting(".github/x/workflows", rules), None);
        assert_eq!(protecting("a", ["", "/", "!"]), None);
    }

    #[test]
    fn the_last_rule_that_fits_decides() {
        assert_eq!(protecting(".env.example", ["!.env.example", ".env.*"]), Some(".env.*"));
        assert_eq!(protecting(".env.example", [".env.*", "!.env.example", "*.example"]), Some("*.example"));
    }
}
