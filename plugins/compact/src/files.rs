//! The lists of files at a summary's end: what the model wrote of them is replaced by what the host knows.

/// The lists, by their tags. Those that pi writes, so that its users' summaries are read too.
const TAGS: [&str; 2] = ["read-files", "modified-files"];

/// The text without such lists.
pub fn without(text: &str) -> String {
    let mut text = text.to_owned();
    for tag in TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = text.find(&open) {
            let end = text[start..].find(&close).map_or(text.len(), |at| start + at + close.len());
            text.replace_range(start..end, "");
        }
    }
    text.trim().to_owned()
}

/// The text with the lists at its end, where they have something in them.
pub fn listed(text: String, read: &[String], modified: &[String]) -> String {
    let mut text = text;
    for (tag, files) in TAGS.iter().zip([read, modified]) {
        if !files.is_empty() {
            text.push_str(&format!("\n\n<{tag}>\n{}\n</{tag}>", files.join("\n")));
        }
    }
    text
}
