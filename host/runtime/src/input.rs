//! The user's words from the command line: `@file` arguments, piped text, pictures.

use crate::picture;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use pith_os::{OpenError, Root};
use pith_protocol::{Content, Image};
use std::path::{Component, Path, PathBuf};

/// The largest file that an argument brings, in bytes.
pub const FILE_LIMIT_BYTES: u64 = 10 << 20;
/// The largest picture, in bytes of base64: providers take 5 MB.
pub const IMAGE_LIMIT_BYTES: usize = 9 << 19;
/// The most text of one message, in bytes.
pub const TEXT_LIMIT_BYTES: usize = 16 << 20;
/// The most files of one message.
pub const FILES_LIMIT: usize = 100;

/// An argument that cannot be brought into a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be read.
    #[error("@{argument} cannot be read: {source}")]
    Unreadable {
        /// As given, without the `@`.
        argument: String,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// A relative path on which a link leads out of the folder: a repository's doing, not the user's.
    #[error(
        "@{argument} leads out of the working folder by a link; to send what it leads to, name that by its full path"
    )]
    LeadsOut {
        /// As given, without the `@`.
        argument: String,
    },
    /// A picture that providers would refuse, and every later request of the session with it.
    #[error("@{argument} is a damaged picture: {why}")]
    DamagedImage {
        /// As given, without the `@`.
        argument: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Neither UTF-8 text nor a picture that models take.
    #[error("@{argument} is neither text nor a PNG, JPEG, GIF or WebP picture")]
    Binary {
        /// As given, without the `@`.
        argument: String,
    },
    /// A picture over the limit.
    #[error("@{argument} is too large a picture: {bytes} bytes in base64, of at most {IMAGE_LIMIT_BYTES}")]
    LargeImage {
        /// As given, without the `@`.
        argument: String,
        /// In base64.
        bytes: usize,
    },
    /// All text together is over the limit.
    #[error("the message is too long: {bytes} bytes of text, of at most {TEXT_LIMIT_BYTES}")]
    LongText {
        /// With what files and pipe brought.
        bytes: usize,
    },
    /// Too many files.
    #[error("the message names {files} files, of at most {FILES_LIMIT}")]
    ManyFiles {
        /// As many as were named.
        files: usize,
    },
}

/// One message from what stands on the command line: `piped` first, then the files that arguments with `@` name (relative to `base`), then
/// the other arguments, joined by blanks. A lone `@` is a word. Empty files and an empty pipe bring nothing; with nothing at all the
/// message has no blocks. A relative path without `..` stays beneath `base`, also by links; any other is the user's own word. `piped` was bounded by who read it. Pictures follow the words as blocks of their own.
///
/// # Errors
/// A file that cannot be read, is no regular file, lies outside by a link, is a damaged picture, is neither text nor a picture, or is over a limit.
pub fn read_input(base: &Path, arguments: &[String], piped: Option<&str>) -> Result<Vec<Content>, InputError> {
    let (mut files, mut words) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument.strip_prefix('@') {
            Some(file) if !file.is_empty() => files.push(file),
            _ => words.push(argument.as_str()),
        }
    }
    if files.len() > FILES_LIMIT {
        return Err(InputError::ManyFiles { files: files.len() });
    }
    let mut text = String::new();
    if let Some(piped) = piped.map(str::trim_end).filter(|piped| !piped.is_empty()) {
        text.push_str(piped);
        text.push_str("\n\n");
    }
    let mut images = Vec::new();
    for file in files {
        let path = base.join(file);
        let bytes = read(base, file)?;
        if bytes.is_empty() {
            continue;
        }
        match image_type(&bytes) {
            Some(mime_type) => {
                images.push(image(file, &bytes, mime_type)?);
                text.push_str(&wrapped(&path, ""));
            }
            None => text.push_str(&wrapped(&path, &words_of(file, bytes)?)),
        }
        within(&text)?;
    }
    text.push_str(&words.join(" "));
    within(&text)?;
    let text = text.trim_end();
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(Content::text(text));
    }
    content.extend(images);
    Ok(content)
}

fn read(base: &Path, file: &str) -> Result<Vec<u8>, InputError> {
    let is_beneath = Path::new(file).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let read = if is_beneath {
        Root::open(base).and_then(|root| root.read_limited(Path::new(file), FILE_LIMIT_BYTES))
    } else {
        pith_os::read_regular(&base.join(file), FILE_LIMIT_BYTES)
    };
    let argument = || file.to_owned();
    read.map_err(|error| match error {
        OpenError::Escapes { .. } => InputError::LeadsOut { argument: argument() },
        source => InputError::Unreadable { argument: argument(), source },
    })
}

fn within(text: &str) -> Result<(), InputError> {
    if text.len() > TEXT_LIMIT_BYTES { Err(InputError::LongText { bytes: text.len() }) } else { Ok(()) }
}

fn words_of(argument: &str, bytes: Vec<u8>) -> Result<String, InputError> {
    let binary = || InputError::Binary { argument: argument.to_owned() };
    if bytes.contains(&0) {
        return Err(binary());
    }
    let text = String::from_utf8(bytes).map_err(|_| binary())?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn wrapped(path: &Path, text: &str) -> String {
    let name = attribute(&plain(path));
    let (start, end) = if text.is_empty() { ("", "") } else { ("\n", if text.ends_with('\n') { "" } else { "\n" }) };
    format!("<file name=\"{name}\">{start}{text}{end}</file>\n")
}

/// The path without links where it has one.
fn plain(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A path as the value of a tag's attribute: it cannot end it.
pub(crate) fn attribute(path: &Path) -> String {
    let mut value = String::new();
    for c in path.to_string_lossy().chars() {
        match c {
            '&' => value.push_str("&amp;"),
            '"' => value.push_str("&quot;"),
            '<' => value.push_str("&lt;"),
            '>' => value.push_str("&gt;"),
            c if c.is_control() => value.extend(c.escape_default()),
            c => value.push(c),
        }
    }
    value
}

fn image(argument: &str, bytes: &[u8], mime_type: &str) -> Result<Content, InputError> {
    // Checked before it is encoded: four characters for three bytes.
    let encoded = bytes.len().div_ceil(3).saturating_mul(4);
    if encoded > IMAGE_LIMIT_BYTES {
        return Err(InputError::LargeImage { argument: argument.to_owned(), bytes: encoded });
    }
    picture::check(mime_type, bytes).map_err(|why| InputError::DamagedImage { argument: argument.to_owned(), why })?;
    Ok(Content::Image(Image { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() }))
}

/// What a picture is, by its first bytes.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn pipe_files_and_words_make_one_message() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::write(dir.join("a.txt"), "alpha").unwrap();
        std::fs::write(dir.join("q\".txt"), "\u{feff}beta\n").unwrap();
        std::fs::write(dir.join("empty"), "").unwrap();
        std::fs::write(dir.join("p.png"), picture::tests::PNG).unwrap();
        let given = arguments(&["@a.txt", "what", "is", "@", "@q\".txt", "this?", "@empty", "@p.png"]);
        let content = read_input(&dir, &given, Some("piped\n")).unwrap();
        let at = dir.display();
        let text = format!(
            "piped\n\n<file name=\"{at}/a.txt\">\nalpha\n</file>\n<file name=\"{at}/q&quot;.txt\">\nbeta\n</file>\n\
             <file name=\"{at}/p.png\"></file>\nwhat is @ this?"
        );
        let data = STANDARD.encode(picture::tests::PNG);
        let image = Content::Image(Image { data, mime_type: "image/png".to_owned() });
        assert_eq!(content, [Content::text(text), image]);
        assert_eq!(read_input(&dir, &[], Some(" \n")).unwrap(), []);
        assert_eq!(read_input(&dir, &arguments(&["@empty"]), None).unwrap(), []);
    }

    #[test]
    fn pictures_are_known_by_content() {
        for (bytes, kind) in [
            (&b"\xff\xd8\xff\xe0"[..], Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"\x89PNG", None),
        ] {
            assert_eq!(image_type(bytes), kind);
        }
    }

    #[test]
    fn what_is_no_text_or_too_large_or_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("nul"), b"a\0b").unwrap();
        std::fs::write(at("latin"), b"caf\xe9").unwrap();
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.resize(IMAGE_LIMIT_BYTES / 4 * 3 + 1, 0);
        std::fs::write(at("big.png"), &png).unwrap();
        png.truncate(IMAGE_LIMIT_BYTES / 4 * 3);
        std::fs::write(at("zeros.png"), &png).unwrap();
        std::fs::write(at("cut.png"), &picture::tests::PNG[..50]).unwrap();
        std::fs::write(at("fits.png"), picture::tests::PNG).unwrap();
        std::fs::File::create(at("huge")).unwrap().set_len(FILE_LIMIT_BYTES + 1).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        let try_one = |name: &str| read_input(dir.path(), &arguments(&[name]), None);
        assert!(matches!(try_one("@nul"), Err(InputError::Binary { .. })));
        assert!(matches!(try_one("@latin"), Err(InputError::Binary { .. })));
        assert!(matches!(try_one("@big.png"), Err(InputError::LargeImage { .. })));
        assert!(try_one("@fits.png").is_ok());
        for name in ["@zeros.png", "@cut.png"] {
            assert!(matches!(try_one(name), Err(InputError::DamagedImage { .. })), "{name}");
        }
        for name in ["@huge", "@fifo", "@none", "@."] {
            let error = try_one(name).unwrap_err();
            assert!(matches!(error, InputError::Unreadable { .. }) && error.to_string().contains(name), "{error}");
        }
        let many = vec!["@x".to_owned(); FILES_LIMIT + 1];
        assert!(matches!(read_input(dir.path(), &many, None), Err(InputError::ManyFiles { .. })));
    }

    #[test]
    fn a_link_of_the_folders_leads_nowhere_and_the_users_own_path_does() {
        let dir = tempfile::tempdir().unwrap();
        let (work, outside) = (dir.path().join("work"), dir.path().join("outside"));
        std::fs::create_dir_all(work.join("sub")).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(work.join("a"), "alpha").unwrap();
        std::os::unix::fs::symlink(&outside, work.join("lk")).unwrap();
        std::os::unix::fs::symlink("../outside", work.join("sub/lk")).unwrap();
        std::os::unix::fs::symlink(dir.path(), work.join("up")).unwrap();
        std::os::unix::fs::symlink("../a", work.join("sub/in")).unwrap();
        let try_one = |name: &str| read_input(&work, &arguments(&[name]), None);
        for name in ["@lk", "@./lk", "@up/outside", "@up/work/lk"] {
            let told = try_one(name).unwrap_err().to_string();
            assert!(told.contains("leads out of the working folder"), "{name}: {told}");
        }
        for name in ["@a", "@./a", "@sub/in", "@../outside", &format!("@{}", work.join("lk").display())] {
            assert!(try_one(name).is_ok(), "{name}");
        }
    }
}
