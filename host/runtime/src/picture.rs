//! Whether a picture is whole as far as its structure tells; nothing is decoded. A provider refuses a damaged one, and with it every later
//! request of its session.

const CUT: &str = "the file ends too early";
const WRONG: &str = "a part is wrong";

/// Walks the parts of a picture of this media type; what is wrong with it.
pub(crate) fn check(mime_type: &str, bytes: &[u8]) -> Result<(), &'static str> {
    match mime_type {
        "image/png" => png(bytes),
        "image/jpeg" => jpeg(bytes),
        "image/gif" => gif(bytes),
        "image/webp" => webp(bytes),
        _ => Ok(()),
    }
}

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], &'static str> {
    bytes.get(offset..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(CUT)
}

fn after(offset: usize, length: usize) -> Result<usize, &'static str> {
    offset.checked_add(length).ok_or(CUT)
}

/// Header, pixels, end. Checksums are left to who decodes.
fn png(bytes: &[u8]) -> Result<(), &'static str> {
    let (mut offset, mut has_pixels) = (8, false);
    loop {
        let length = usize::try_from(u32::from_be_bytes(at(bytes, offset)?)).map_err(|_| CUT)?;
        let kind: [u8; 4] = at(bytes, after(offset, 4)?)?;
        let content = after(offset, 8)?;
        let end = after(content, length)?;
        at::<4>(bytes, end)?;
        match (&kind, offset) {
            (b"IHDR", 8) if length == 13 => {
                let [w, x, y, z, a, b, c, d] = at(bytes, content)?;
                if u32::from_be_bytes([w, x, y, z]) == 0 || u32::from_be_bytes([a, b, c, d]) == 0 {
                    return Err("it has no pixels");
                }
            }
            (b"IHDR", _) | (_, 8) => return Err("its header is not at the beginning"),
            (b"IDAT", _) => has_pixels = true,
            (b"IEND", _) => return if has_pixels { Ok(()) } else { Err("it has no pixels") },
            _ => {}
        }
        offset = after(end, 4)?;
    }
}

/// Its segments up to the pixels, and an end after them.
fn jpeg(bytes: &[u8]) -> Result<(), &'static str> {
    let (mut offset, mut has_frame) = (2, false);
    loop {
        let [0xff, marker] = at(bytes, offset)? else { return Err("a marker is missing") };
        match marker {
            0xff => offset = after(offset, 1)?,
            // It stands alone.
            0x01 | 0xd0..=0xd7 => offset = after(offset, 2)?,
            0x00 | 0xd8 | 0xd9 => return Err("a marker is wrong"),
            _ => {
                let length = usize::from(u16::from_be_bytes(at(bytes, after(offset, 2)?)?));
                let end = after(offset, length.saturating_add(2))?;
                let rest = bytes.get(end..).filter(|_| length >= 2).ok_or(CUT)?;
                has_frame |= matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf);
                if marker == 0xda {
                    let ends = rest.windows(2).rev().any(|pair| pair == [0xff, 0xd9]);
                    return if !ends {
                        Err(CUT)
                    } else if has_frame {
                        Ok(())
                    } else {
                        Err("its header is missing")
                    };
                }
                offset = end;
            }
        }
    }
}

/// Its parts up to the end of the first picture.
fn gif(bytes: &[u8]) -> Result<(), &'static str> {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3_usize << ((flags & 7) + 1) };
    let [flags] = at(bytes, 10)?;
    let mut offset = after(13, table(flags))?;
    loop {
        match at(bytes, offset)? {
            [0x21] => offset = after_blocks(bytes, after(offset, 2)?)?,
            [0x2c] => {
                let [.., flags] = at::<10>(bytes, offset)?;
                return after_blocks(bytes, after(offset, 11 + table(flags))?).map(|_| ());
            }
            [0x3b] => return Err("it has no pixels"),
            _ => return Err(WRONG),
        }
    }
}

/// Where the blocks, each with its length before it, have ended.
fn after_blocks(bytes: &[u8], mut offset: usize) -> Result<usize, &'static str> {
    loop {
        let [length] = at(bytes, offset)?;
        offset = after(offset, 1 + usize::from(length))?;
        if length == 0 {
            return Ok(offset);
        }
    }
}

/// All of what its first bytes promise.
fn webp(bytes: &[u8]) -> Result<(), &'static str> {
    let length = usize::try_from(u32::from_le_bytes(at(bytes, 4)?)).map_err(|_| CUT)?;
    if bytes.len() < after(8, length)? {
        return Err(CUT);
    }
    match &at::<4>(bytes, 12)? {
        b"VP8X" | b"VP8L" | b"VP8 " => Ok(()),
        _ => Err(WRONG),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One pixel.
    pub const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";
    const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    const WEBP: &[u8] = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0";
    const JPEG: &[u8] =
        b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\x3f\0\x7f\xff\xd9";

    #[test]
    fn whole_ones_pass_and_no_beginning_of_one_does() {
        for (kind, whole, needed) in [
            ("image/png", PNG, PNG.len()),
            ("image/jpeg", JPEG, JPEG.len()),
            // Its trailer is not needed.
            ("image/gif", GIF, GIF.len() - 1),
            ("image/webp", WEBP, WEBP.len()),
        ] {
            assert_eq!(check(kind, whole), Ok(()), "{kind}");
            for length in 0..needed {
                assert!(check(kind, &whole[..length]).is_err(), "{kind} of {length} bytes");
            }
        }
    }

    #[test]
    fn lengths_that_lie_end_nothing_but_the_check() {
        for byte in 0..PNG.len() {
            for (kind, whole) in [("image/png", PNG), ("image/jpeg", JPEG), ("image/gif", GIF), ("image/webp", WEBP)] {
                let mut damaged = whole.to_vec();
                if let Some(byte) = damaged.get_mut(byte) {
                    *byte = 0xff;
                }
                let _ = check(kind, &damaged);
            }
        }
    }
}
