//! What a file is, by its first bytes, whatever its name says.

/// How many first bytes decide.
pub const SNIFF_BYTES: usize = 8 * 1024;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, or near enough.
    Text,
    /// An image that models read, with its media type.
    Image(&'static str),
    /// Text in UTF-16, with the name that `iconv` has for it.
    Utf16(&'static str),
    /// Anything else that has a NUL byte.
    Binary,
}

/// Judges by the first bytes, [`SNIFF_BYTES`] or the whole file.
pub fn kind(first: &[u8]) -> Kind {
    match first {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Kind::Image("image/png"),
        [0xff, 0xd8, 0xff, ..] => Kind::Image("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Kind::Image("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Kind::Image("image/webp"),
        [0xff, 0xfe, ..] => Kind::Utf16("UTF-16LE"),
        [0xfe, 0xff, ..] => Kind::Utf16("UTF-16BE"),
        bytes if bytes.contains(&0) => Kind::Binary,
        _ => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Kind::Image("image/png")),
            (b"\xff\xd8\xff\xe0", Kind::Image("image/jpeg")),
            (b"GIF89a", Kind::Image("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Kind::Image("image/webp")),
            (b"RIFF\0\0\0\0WAVE", Kind::Binary),
            (b"\xff\xfea\0", Kind::Utf16("UTF-16LE")),
            (b"\x7fELF\0", Kind::Binary),
            (b"caf\xe9", Kind::Text),
            (b"", Kind::Text),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:?}");
        }
    }
}
