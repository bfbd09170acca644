//! What a file is, by its first bytes, whatever its name says.

use crate::image::Format;

/// How many first bytes decide.
pub const SNIFF_BYTES: usize = 8 * 1024;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, or near enough.
    Text,
    /// It begins as an image does.
    Image(Format),
    /// Text in UTF-16, by its byte order mark.
    Utf16(Endian),
    /// Anything else that has a NUL byte, and some formats without.
    Binary(Option<Known>),
}

/// Which byte of two comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// The lower one.
    Little,
    /// The higher one.
    Big,
}

/// A format that a common program shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// With its article.
    pub what: &'static str,
    /// The command, before and after the file's name.
    pub command: (&'static str, &'static str),
}

const KNOWN: [(&[u8], Known); 7] = [
    (b"%PDF-", Known { what: "a PDF document", command: ("pdftotext ", " - | head -n 200") }),
    (b"PK\x03\x04", Known { what: "a zip archive", command: ("unzip -l ", "") }),
    (b"\x1f\x8b", Known { what: "compressed by gzip", command: ("gzip -dc ", " | head -c 50000") }),
    (b"\xfd7zXZ\0", Known { what: "compressed by xz", command: ("xz -dc ", " | head -c 50000") }),
    (b"\x28\xb5\x2f\xfd", Known { what: "compressed by zstd", command: ("zstd -dc ", " | head -c 50000") }),
    (b"SQLite format 3\0", Known { what: "an SQLite database", command: ("sqlite3 -readonly ", " .schema") }),
    (b"\x7fELF", Known { what: "a program or library", command: ("file ", "") }),
];

/// Judges by the first bytes, [`SNIFF_BYTES`] or the whole file.
pub fn kind(first: &[u8]) -> Kind {
    let has_nul = first.contains(&0);
    match (Format::of(first), first) {
        // GIF and BMP begin with letters, so a text may too; a picture has a NUL soon.
        (Some(Format::Gif | Format::Bmp), _) if !has_nul => Kind::Text,
        (Some(format), _) => Kind::Image(format),
        (None, [0xff, 0xfe, ..]) => Kind::Utf16(Endian::Little),
        (None, [0xfe, 0xff, ..]) => Kind::Utf16(Endian::Big),
        (None, _) => match KNOWN.iter().find(|(start, _)| first.starts_with(start)) {
            Some((_, known)) => Kind::Binary(Some(*known)),
            None if has_nul => Kind::Binary(None),
            None => Kind::Text,
        },
    }
}

/// The text of a whole file in UTF-16, its byte order mark left out, what is wrong in it replaced.
pub fn utf16(bytes: &[u8], endian: Endian) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let unit = |pair: &[u8; 2]| match endian {
        Endian::Little => u16::from_le_bytes(*pair),
        Endian::Big => u16::from_be_bytes(*pair),
    };
    let units = pairs.iter().map(unit).skip_while(|&unit| unit == 0xfeff);
    let mut text: String = char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if !rest.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], Kind::Image(Format::Png)),
            (b"\xff\xd8\xff\xe0", Kind::Image(Format::Jpeg)),
            (b"GIF89a\x01\0", Kind::Image(Format::Gif)),
            (b"GIF89a is a format", Kind::Text),
            (b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", Kind::Image(Format::Bmp)),
            (b"BMW builds cars, and", Kind::Text),
            (b"RIFF\0\0\0\0WEBPVP8 ", Kind::Image(Format::Webp)),
            (b"RIFF\0\0\0\0WAVE", Kind::Binary(None)),
            (b"\xff\xfea\0", Kind::Utf16(Endian::Little)),
            (b"\xfe\xff\0a", Kind::Utf16(Endian::Big)),
            (b"caf\xe9", Kind::Text),
            (b"", Kind::Text),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:?}");
        }
        assert!(matches!(kind(b"%PDF-1.4\n"), Kind::Binary(Some(known)) if known.what == "a PDF document"));
    }

    #[test]
    fn utf16_is_decoded_as_far_as_it_goes() {
        assert_eq!(utf16(b"\xff\xfea\0\x3d\xd8\x42\xde", Endian::Little), "a\u{1f642}");
        assert_eq!(utf16(b"\xfe\xff\0a\xd8\x3d\0", Endian::Big), "a\u{fffd}\u{fffd}");
        assert_eq!(utf16(b"\xff\xfe", Endian::Little), "");
    }
}
