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

/// What is wrong with a rule: nothing could ever fit it, or not what it seems to say.
pub fn fault(rule: &str) -> Option<&'static str> {
    let rule = rule.strip_prefix('!').unwrap_or(rule);
    if wanted(rule).next().is_none() {
        return Some("has no name in it");
    }
    if wanted(rule).any(|name| matches!(name, "." | "..")) {
        return Some("has a `.` or `..` in it, which is in no path that is judged");
    }
    wanted(rule).find_map(glob::fault)
}

/// The names of a rule.
fn wanted(rule: &str) -> impl Iterator<Item = &str> {
    rule.split('/').filter(|name| !name.is_empty())
}

fn fits(names: &[&str], rule: &str) -> bool {
    let wanted = || wanted(rule);
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
    use super::{fault, protecting};

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
    fn a_rule_that_says_nothing_or_something_else_is_at_fault() {
        for (rule, word) in [
            ("[", "`[`"),
            ("*.[ch]", "`[`"),
            ("src/*.{a,b}", "`{`"),
            ("src/**/x", "`**`"),
            ("a\\", "lone"),
            ("", "no name"),
            ("!/", "no name"),
            ("../x", "`..`"),
        ] {
            assert!(fault(rule).is_some_and(|fault| fault.contains(word)), "{rule}");
        }
        for rule in ["\\[x]", "*.lock", "!.env.example", "/etc", ".github/workflows", "a\\{b", "a**b", "..."] {
            assert_eq!(fault(rule), None, "{rule}");
        }
    }

    #[test]
    fn the_last_rule_that_fits_decides() {
        assert_eq!(protecting(".env.example", ["!.env.example", ".env.*"]), Some(".env.*"));
        assert_eq!(protecting(".env.example", [".env.*", "!.env.example", "*.example"]), Some("*.example"));
    }
}
