//! Names of plugins and tools.

/// The longest name of a plugin or a tool, in bytes.
const NAME_BYTES: usize = 64;

/// A file's stem as a plugin's name: `[a-z0-9-]`, every other run of characters a single `-`. None where nothing is left.
pub fn fold_plugin_name(stem: &str) -> Option<String> {
    let mut name = String::with_capacity(stem.len());
    for c in stem.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_BYTES);
    name.truncate(name.trim_end_matches('-').len());
    (!name.is_empty()).then_some(name)
}

/// Whether a tool may be called so: `[a-z0-9][a-z0-9_-]{0,63}`.
pub fn is_tool_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first.is_ascii_digit())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
        && name.len() <= NAME_BYTES
}

/// The form in which two tools' names must differ: a model mistakes `read_file` for `read-file`.
pub fn fold_tool_name(name: &str) -> String {
    name.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_become_names() {
        for (stem, name) in
            [("My Tool", "my-tool"), ("a__b..c", "a-b-c"), ("-x-", "x"), ("Ärger", "rger"), ("v1.2", "v1-2")]
        {
            assert_eq!(fold_plugin_name(stem).as_deref(), Some(name), "{stem}");
        }
        assert_eq!(fold_plugin_name("..."), None);
        assert_eq!(fold_plugin_name(""), None);
        assert_eq!(fold_plugin_name(&"a".repeat(200)).map(|name| name.len()), Some(64));
    }

    #[test]
    fn tool_names_have_one_form() {
        assert!(is_tool_name("read") && is_tool_name("9_x-y") && is_tool_name(&"a".repeat(64)));
        for bad in ["", "-a", "_a", "Read", "a b", "a.b", "ü", &"a".repeat(65)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
        assert_eq!(fold_tool_name("Read_File"), fold_tool_name("read-file"));
    }

    proptest::proptest! {
        #[test]
        fn a_folded_name_folds_to_itself(stem in "\\PC{0,80}") {
            if let Some(name) = fold_plugin_name(&stem) {
                proptest::prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
                proptest::prop_assert_eq!(fold_plugin_name(&name), Some(name));
            }
        }
    }
}
