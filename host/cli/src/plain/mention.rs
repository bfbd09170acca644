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
    /// What looks like a file's name and is none that can be attached, each in a sentence.
    pub notes: Vec<String>,
}

/// Attaches every `@FILE` that is a word of its own and names a file beneath or beside the folder; other words with an `@` stay words, and
/// those that look like a file's name are noted. The text stays as it was written.
///
/// # Errors
/// Why a file that is there cannot be attached.
pub fn with_files(folder: &Path, text: &str) -> Result<Message, String> {
    let mut files: Vec<String> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let Some(name) = word.strip_prefix('@').filter(|name| !name.is_empty()) else { continue };
        let (list, entry) = match named(folder, name) {
            Named::File(name) => (&mut files, name.to_owned()),
            Named::Not(note) => (&mut notes, note),
            Named::Word => continue,
        };
        if !list.contains(&entry) {
            list.push(entry);
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
    Ok(Message { content, files, notes })
}

/// What a word with an `@` before it names.
enum Named<'a> {
    File(&'a str),
    /// Nothing that can be attached, and why.
    Not(String),
    Word,
}

/// The word as a file's name; also without the punctuation that ends a sentence.
fn named<'a>(folder: &Path, word: &'a str) -> Named<'a> {
    let bare = word.trim_end_matches(['.', ',', ';', ':', '?', '!', ')']);
    let names = [word, bare].into_iter().filter(|name| !name.is_empty());
    let mut met = None;
    for name in names {
        match std::fs::metadata(folder.join(name)) {
            Ok(meta) if meta.is_file() => return Named::File(name),
            Ok(meta) if meta.is_dir() => met = Some(format!("@{name} is a folder and was not attached")),
            Ok(_) => met = Some(format!("@{name} is no regular file and was not attached")),
            Err(_) => {}
        }
    }
    match met {
        Some(note) => Named::Not(note),
        None if is_like_a_path(bare) => Named::Not(format!("there is no file @{bare}; nothing was attached")),
        None => Named::Word,
    }
}

/// `./x`, `/x`, `~/x`, `x.rs`; not `types/node` or `name`, which are other things too.
fn is_like_a_path(word: &str) -> bool {
    let path = Path::new(word);
    let has_suffix =
        path.extension().is_some_and(|end| end.len() <= 8 && end.to_string_lossy().chars().all(char::is_alphanumeric));
    has_suffix || word.starts_with(['/', '~']) || word.starts_with("./") || word.starts_with("../")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

    fn text(message: &Message) -> String {
        message.content.iter().filter_map(Content::as_text).collect()
    }

    #[test]
    fn files_are_attached_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "alpha").unwrap();
        std::fs::write(folder.path().join("p.png"), PNG).unwrap();
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
        assert!(message.notes.is_empty());
        std::fs::create_dir(folder.path().join("src")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let message = with_files(folder.path(), "@src, @socket @none.txt @./gone @types/node @name and @src,").unwrap();
        assert_eq!(
            message.notes,
            [
                "@src is a folder and was not attached",
                "@socket is no regular file and was not attached",
                "there is no file @none.txt; nothing was attached",
                "there is no file @./gone; nothing was attached"
            ]
        );
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("lk")).unwrap();
        assert!(with_files(folder.path(), "@lk").is_err_and(|error| error.contains("leads out")));
        assert!(with_files(folder.path(), "@binary").is_err_and(|error| error.contains("binary")));
    }
}
