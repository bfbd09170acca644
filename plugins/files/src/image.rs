//! Whether a picture is whole. Providers answer a request that has a damaged one with an error, and so every request of
//! the session after it: better it is refused here. Only the structure is walked, no picture is decoded.

/// The longest side that providers take, in pixels.
pub const MAX_SIDE: u32 = 8_000;

/// A picture's sides in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    pub width: u32,
    pub height: u32,
}

/// A picture's format, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Png,
    Jpeg,
    Gif,
    Webp,
    Bmp,
}

impl Format {
    /// What the first bytes promise. A text may begin with `GIF89a` or `BM` too.
    pub fn of(first: &[u8]) -> Option<Self> {
        match first {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            // The kind of header is the only other thing that all of them share.
            [b'B', b'M', _, _, _, _, _, _, _, _, _, _, _, _, 12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0, ..] => {
                Some(Self::Bmp)
            }
            _ => None,
        }
    }

    /// The media type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Bmp => "image/bmp",
        }
    }

    /// Its sides, where the file is whole as far as its structure tells; else what is wrong with it.
    pub fn check(self, bytes: &[u8]) -> Result<Sides, &'static str> {
        let sides = match self {
            Self::Png => png(bytes),
            Self::Jpeg => jpeg(bytes),
            Self::Gif => gif(bytes),
            Self::Webp => webp(bytes),
            Self::Bmp => crate::bmp::Bmp::new(bytes).map(|bmp| bmp.sides()),
        }?;
        if sides.width == 0 || sides.height == 0 { Err("it has no pixels") } else { Ok(sides) }
    }
}

const CUT: &str = "the file ends too early";

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], &'static str> {
    bytes.get(offset..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(CUT)
}

fn png(bytes: &[u8]) -> Result<Sides, &'static str> {
    let (mut offset, mut sides, mut has_data) = (8, None, false);
    loop {
        let length = u32::from_be_bytes(at(bytes, offset)?) as usize;
        let kind: [u8; 4] = at(bytes, offset + 4)?;
        let end = (offset + 8).checked_add(length).ok_or(CUT)?;
        let content = bytes.get(offset + 8..end).ok_or(CUT)?;
        let sum = u32::from_be_bytes(at(bytes, end)?);
        let is_critical = kind[0].is_ascii_uppercase();
        if is_critical && crate::bmp::crc(&bytes[offset + 4..end]) != sum {
            return Err("the checksum of a part is wrong");
        }
        match (&kind, sides) {
            (b"IHDR", None) => {
                let [w, x, y, z, a, b, c, d, depth, color, 0, 0, 0 | 1] = *content else {
                    return Err("its header is wrong");
                };
                let fits = match color {
                    0 => matches!(depth, 1 | 2 | 4 | 8 | 16),
                    3 => matches!(depth, 1 | 2 | 4 | 8),
                    2 | 4 | 6 => matches!(depth, 8 | 16),
                    _ => false,
                };
                if !fits {
                    return Err("its header is wrong");
                }
                sides =
                    Some(Sides { width: u32::from_be_bytes([w, x, y, z]), height: u32::from_be_bytes([a, b, c, d]) });
            }
            (b"IHDR", Some(_)) | (_, None) => return Err("its header is not at the beginning"),
            (b"IDAT", _) => has_data = true,
            (b"IEND", Some(sides)) => return if has_data { Ok(sides) } else { Err("it has no pixels") },
            _ => {}
        }
        offset = end + 4;
    }
}

fn jpeg(bytes: &[u8]) -> Result<Sides, &'static str> {
    let (mut offset, mut sides) = (2, None);
    loop {
        let [0xff, marker] = at(bytes, offset)? else { return Err("a marker is missing") };
        match marker {
            0xff => {
                offset += 1;
                continue;
            }
            // A marker that stands alone.
            0x01 | 0xd0..=0xd7 => {
                offset += 2;
                continue;
            }
            0x00 | 0xd8 | 0xd9 => return Err("a marker is wrong"),
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(at(bytes, offset + 2)?));
        if length < 2 || bytes.len() < offset + 2 + length {
            return Err(CUT);
        }
        match marker {
            // Frames, but for the tables of Huffman and arithmetic codes and lossless ones among them.
            0xc0..=0xc2 => {
                let [_, h, i, w, x] = at(bytes, offset + 4)?;
                sides =
                    Some(Sides { width: u16::from_be_bytes([w, x]).into(), height: u16::from_be_bytes([h, i]).into() });
            }
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => return Err("it is of a kind of JPEG that few read"),
            0xda => {
                let rest = &bytes[offset + 2 + length..];
                let ends = rest.windows(2).rev().any(|pair| pair == [0xff, 0xd9]);
                return if ends { sides.ok_or("its header is missing") } else { Err(CUT) };
            }
            _ => {}
        }
        offset += 2 + length;
    }
}

fn gif(bytes: &[u8]) -> Result<Sides, &'static str> {
    let [w, x, h, y, flags, _, _] = at(bytes, 6)?;
    let sides = Sides { width: u16::from_le_bytes([w, x]).into(), height: u16::from_le_bytes([h, y]).into() };
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut offset = 13 + table(flags);
    loop {
        match at(bytes, offset)? {
            [0x21] => offset = after_blocks(bytes, offset + 2)?,
            // The first picture is all that is needed.
            [0x2c] => {
                let [.., flags] = at::<10>(bytes, offset)?;
                return after_blocks(bytes, offset + 11 + table(flags)).map(|_| sides);
            }
            [0x3b] => return Err("it has no pixels"),
            _ => return Err("a part is wrong"),
        }
    }
}

/// Where the blocks, each with its length before it, have ended.
fn after_blocks(bytes: &[u8], mut offset: usize) -> Result<usize, &'static str> {
    loop {
        let [length] = at(bytes, offset)?;
        offset += 1 + usize::from(length);
        if length == 0 {
            return Ok(offset);
        }
    }
}

fn webp(bytes: &[u8]) -> Result<Sides, &'static str> {
    let length = u32::from_le_bytes(at(bytes, 4)?) as usize;
    if bytes.len() - 8 < length {
        return Err(CUT);
    }
    let kind: [u8; 4] = at(bytes, 12)?;
    match &kind {
        b"VP8X" => {
            let [w, x, y, h, i, j] = at(bytes, 24)?;
            let side = |bytes: [u8; 3]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) + 1;
            Ok(Sides { width: side([w, x, y]), height: side([h, i, j]) })
        }
        b"VP8L" => {
            let [0x2f, a, b, c, d] = at(bytes, 20)? else { return Err("its header is wrong") };
            let bits = u32::from_le_bytes([a, b, c, d]);
            Ok(Sides { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 })
        }
        b"VP8 " => {
            let [0x9d, 0x01, 0x2a, w, x, h, y] = at(bytes, 23)? else { return Err("its header is wrong") };
            let side = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
            Ok(Sides { width: side(w, x), height: side(h, y) })
        }
        _ => Err("its header is wrong"),
    }
}

#[cfg(test)]
mod tests;
