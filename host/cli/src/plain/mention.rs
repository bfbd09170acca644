//! `@FILE` within a message.

use crate::failure::chain;
use pith_protocol::Content;
use std::path::Path;

/// A message with the files that it mentions.
pub struct Message {
    /// For the model.
    pub content: Vec<Content>,
    /// The files, as they were written.
    pub files: Vec<String>,
}

/// Attaches every `@FILE` that is a word of its own and names a file beneath or beside the folder; other words with an `@` stay words. The
/// text stays as it was written.
///
/// # Errors
/// Why a file that is there cannot be attached.
pub fn with_files(folder: &Path, text: &str) -> Result<Message, String> {
    let mut files: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if let Some(name) = word.strip_prefix('@').and_then(|name| named(folder, name))
            && !files.iter().any(|file| file == name)
        {
            files.push(name.to_owned());
        }
    }
    let arguments: Vec<String> = files.iter().map(|file| format!("@{file}")).collect();
    let mut content = pith_runtime::read_input(folder, &arguments, None).map_err(|error| chain(&error))?;
    match content.first_mut() {
        Some(Content::Text(block)) => {
            block.text.push('\n');
            block.text.push_str(text);
        }
        _ => content.insert(0, Content::text(text)),
    }
    Ok(Message { content, files })
}

/// The word as a file's name; also without the punctuation that ends a sentence.
fn named<'a>(folder: &Path, word: &'a str) -> Option<&'a str> {
    let is_file = |name: &&str| !name.is_empty() && folder.join(name).is_file();
    Some(word)
        .filter(is_file)
        .or_else(|| Some(word.trim_end_matches(['.', ',', ';', ':', '?', '!', ')'])).filter(is_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: &Message) -> String {
        message.content.iter().filter_map(Content::as_text).collect()
    }

    #[test]
    fn files_are_attached_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "alpha").unwrap();
        std::fs::write(folder.path().join("p.png"), b"\x89PNG\r\n\x1a\nrest").unwrap();
        std::fs::write(folder.path().join("binary"), b"\0\x01").unwrap();
        let message = with_files(folder.path(), "look at @a.txt,\nnot me@a.txt or @types @none and @a.txt").unwrap();
        assert_eq!(message.files, ["a.txt"]);
        let words = text(&message);
        assert!(
            words.contains("alpha") && words.ends_with("\nlook at @a.txt,\nnot me@a.txt or @types @none and @a.txt")
        );
        let message = with_files(folder.path(), "@p.png what is it?").unwrap();
        assert_eq!(message.content.len(), 2);
        assert!(text(&message).ends_with("@p.png what is it?"));
        assert_eq!(text(&with_files(folder.path(), "plain words").unwrap()), "plain words");
        assert!(with_files(folder.path(), "@binary").is_err_and(|error| error.contains("binary")));
    }
}
