//! Bitmaps, which no provider takes, as PNG files, which all take. Nothing is compressed: that costs no code, and what is
//! too large then is too large to be shown.

use crate::image::Sides;

/// A bitmap of one, four, eight, 24 or 32 bits a pixel, its pixels not compressed.
#[derive(Clone, Copy, Debug)]
pub struct Bmp<'a> {
    sides: Sides,
    is_top_down: bool,
    bits: u16,
    /// Entries of `entry_bytes`: blue, green, red and perhaps one more.
    palette: &'a [u8],
    entry_bytes: usize,
    pixels: &'a [u8],
    /// Bytes of a row in `pixels`.
    stride: usize,
}

const WRONG: &str = "its header is wrong";
const CUT: &str = "the file ends too early";

impl<'a> Bmp<'a> {
    /// Reads the headers; what is wrong where they are damaged or the pixels are in a form that this does not read.
    pub fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let long =
            |at: usize| bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b)).ok_or(CUT);
        let short =
            |at: usize| bytes.get(at..at + 2).and_then(|b| b.first_chunk()).map(|b| u16::from_le_bytes(*b)).ok_or(CUT);
        let start = long(10)? as usize;
        let header = long(14)? as usize;
        let (width, height, planes, bits, compression, entry_bytes) = if header == 12 {
            (u32::from(short(18)?), i32::from(short(20)?), short(22)?, short(24)?, 0, 3)
        } else {
            (long(18)?, long(22)?.cast_signed(), short(26)?, short(28)?, long(30)?, 4)
        };
        // Masks are read where they are the usual ones.
        let is_plain = match compression {
            0 => true,
            3 if bits == 32 => [long(54)?, long(58)?, long(62)?] == [0x00ff_0000, 0x0000_ff00, 0x0000_00ff],
            _ => false,
        };
        if planes != 1 || width == 0 || height == 0 {
            return Err(WRONG);
        }
        if !is_plain || !matches!(bits, 1 | 4 | 8 | 24 | 32) {
            return Err("its pixels are in a form that read does not know");
        }
        let sides = Sides { width, height: height.unsigned_abs() };
        let row_bits = u64::from(width) * u64::from(bits);
        let stride = row_bits.div_ceil(32) * 4;
        let length = usize::try_from(stride.saturating_mul(u64::from(sides.height))).map_err(|_| CUT)?;
        let end = start.checked_add(length).ok_or(CUT)?;
        let pixels = bytes.get(start..end).ok_or(CUT)?;
        let palette = if bits > 8 { &[] } else { bytes.get(14 + header..start).ok_or(WRONG)? };
        let stride = usize::try_from(stride).map_err(|_| CUT)?;
        Ok(Self { sides, is_top_down: height < 0, bits, palette, entry_bytes, pixels, stride })
    }

    /// Its sides.
    pub fn sides(self) -> Sides {
        self.sides
    }

    /// Bytes of [`Bmp::to_png`], at most a few too many.
    pub fn png_bytes(self) -> u64 {
        let rows = self.raw_bytes();
        rows.saturating_add(rows / 65_535 * 5).saturating_add(100)
    }

    fn raw_bytes(&self) -> u64 {
        (u64::from(self.sides.width) * 3 + 1).saturating_mul(u64::from(self.sides.height))
    }

    /// The same picture as a PNG file of 24 bits a pixel.
    pub fn to_png(self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(usize::try_from(self.raw_bytes()).unwrap_or(0));
        let width = self.sides.width as usize;
        for row in 0..self.sides.height as usize {
            let row = if self.is_top_down { row } else { self.sides.height as usize - 1 - row };
            let row = &self.pixels[row * self.stride..(row + 1) * self.stride];
            // No filter.
            raw.push(0);
            match self.bits {
                24 | 32 => {
                    for pixel in row.chunks_exact(usize::from(self.bits / 8)).take(width) {
                        raw.extend([pixel[2], pixel[1], pixel[0]]);
                    }
                }
                bits => {
                    let bits = usize::from(bits);
                    for x in 0..width {
                        let byte = row[x * bits / 8];
                        let index = usize::from(byte >> (8 - bits - x * bits % 8)) & ((1 << bits) - 1);
                        let color = self.palette.get(index * self.entry_bytes..).and_then(<[u8]>::first_chunk::<3>);
                        // An index beyond the palette is black, as elsewhere.
                        let [blue, green, red] = color.copied().unwrap_or_default();
                        raw.extend([red, green, blue]);
                    }
                }
            }
        }
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut header = Vec::with_capacity(13);
        header.extend(self.sides.width.to_be_bytes());
        header.extend(self.sides.height.to_be_bytes());
        header.extend([8, 2, 0, 0, 0]);
        chunk(&mut png, b"IHDR", &header);
        chunk(&mut png, b"IDAT", &stored(&raw));
        chunk(&mut png, b"IEND", &[]);
        png
    }
}

/// A zlib stream of blocks that are not compressed.
fn stored(raw: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(raw.len() + raw.len() / 65_535 * 5 + 16);
    stream.extend([0x78, 0x01]);
    let mut blocks = raw.chunks(65_535).peekable();
    while let Some(block) = blocks.next() {
        stream.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    // As many bytes as fit before the sums could overflow.
    for part in raw.chunks(5_552) {
        for byte in part {
            a += u32::from(*byte);
            b += a;
        }
        a %= 65_521;
        b %= 65_521;
    }
    stream.extend((b << 16 | a).to_be_bytes());
    stream
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    png.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    let start = png.len();
    png.extend_from_slice(kind);
    png.extend_from_slice(content);
    let sum = crc(&png[start..]);
    png.extend(sum.to_be_bytes());
}

/// PNG's checksum.
pub fn crc(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let mut c = n as u32;
            let mut bit = 0;
            while bit < 8 {
                c = if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
                bit += 1;
            }
            table[n] = c;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::image::Format;

    /// Two by two: red, green over blue, white.
    pub(crate) fn two_by_two(bits: u16) -> Vec<u8> {
        let palette: &[u8] =
            if bits == 8 { &[0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0] } else { &[] };
        let rows: &[u8] = match bits {
            8 => &[2, 3, 0, 0, 0, 1, 0, 0],
            24 => &[255, 0, 0, 255, 255, 255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0],
            _ => &[255, 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 0, 0, 255, 0, 0],
        };
        let start = 54 + palette.len() as u32;
        let mut bytes = b"BM".to_vec();
        bytes.extend((start + rows.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(start.to_le_bytes());
        bytes.extend(40_u32.to_le_bytes());
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend(2_i32.to_le_bytes());
        bytes.extend(1_u16.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend([0; 24]);
        bytes.extend(palette);
        bytes.extend(rows);
        bytes
    }

    #[test]
    fn becomes_a_whole_png_with_its_pixels() {
        for bits in [8, 24, 32] {
            let bytes = two_by_two(bits);
            let bmp = Bmp::new(&bytes).unwrap();
            let png = bmp.to_png();
            assert_eq!(Format::Png.check(&png), Ok(Sides { width: 2, height: 2 }), "{bits}");
            assert!(png.len() as u64 <= bmp.png_bytes(), "{}", png.len());
            let raw = [0, 255, 0, 0, 0, 255, 0, 0, 0, 0, 255, 255, 255, 255];
            assert!(png.windows(raw.len()).any(|part| part == raw), "{bits}: {png:?}");
        }
    }

    #[test]
    fn what_is_damaged_or_unknown_is_refused() {
        let bytes = two_by_two(24);
        for end in 0..bytes.len() {
            assert!(Bmp::new(&bytes[..end]).is_err(), "{end}");
        }
        for at in [18, 22, 26, 28, 30] {
            let mut bytes = bytes.clone();
            bytes[at] = 0xf0;
            assert!(Bmp::new(&bytes).is_err(), "{at}");
        }
    }

    #[test]
    fn sums_are_those_of_the_standards() {
        assert_eq!(crc(b"IEND"), 0xae42_6082);
        assert!(stored(b"Wikipedia").ends_with(&[0x11, 0xe6, 0x03, 0x98]));
    }
}
