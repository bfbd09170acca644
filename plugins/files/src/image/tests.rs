use super::*;

const PIXEL: Result<Sides, &str> = Ok(Sides { width: 1, height: 1 });

fn samples() -> Vec<(Format, Vec<u8>)> {
    let mut gif = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff".to_vec();
    gif.extend(b"\x21\xf9\x04\x01\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x01\x44\0");
    let mut jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
    jpeg.extend(b"\xff\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\x3f\0\x10\xff\xd9");
    let mut webp = b"RIFF\x1e\0\0\0WEBPVP8 \x12\0\0\0\x30\x01\0\x9d\x01\x2a\x01\0\x01\0".to_vec();
    webp.extend([0; 8]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, content) in
        [(b"IHDR", &b"\0\0\0\x01\0\0\0\x01\x08\0\0\0\0"[..]), (b"IDAT", b"\x78\x01\x01\0"), (b"IEND", b"")]
    {
        png.extend((content.len() as u32).to_be_bytes());
        let start = png.len();
        png.extend(kind);
        png.extend(content);
        let sum = crate::bmp::crc(&png[start..]);
        png.extend(sum.to_be_bytes());
    }
    vec![(Format::Png, png), (Format::Jpeg, jpeg), (Format::Gif, gif), (Format::Webp, webp)]
}

#[test]
fn what_is_whole_tells_its_sides() {
    for (format, bytes) in samples() {
        assert_eq!(Format::of(&bytes), Some(format));
        assert_eq!(format.check(&bytes), PIXEL, "{format:?}");
        // What follows the end is nobody's business.
        let mut longer = bytes.clone();
        longer.extend(b"more");
        assert_eq!(format.check(&longer), PIXEL, "{format:?}");
    }
}

#[test]
fn what_is_cut_is_not_shown_wherever_it_is_cut() {
    for (format, bytes) in samples() {
        for end in 16..bytes.len() {
            assert!(format.check(&bytes[..end]).is_err(), "{format:?} of {end} bytes");
        }
    }
}

#[test]
fn no_damage_makes_it_fail_otherwise() {
    for (format, bytes) in samples() {
        for at in 0..bytes.len() {
            for wrong in [0, 1, 0x7f, 0x80, 0xd8, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                // Whatever it says: it says it.
                let _ = format.check(&bytes);
            }
        }
    }
}

#[test]
fn damaged_headers_are_refused() {
    let samples = samples();
    let damaged = |i: usize, at: usize, byte: u8| {
        let (format, mut bytes) = samples[i].clone();
        bytes[at] = byte;
        format.check(&bytes)
    };
    assert_eq!(damaged(0, 19, 2), Err("the checksum of a part is wrong"));
    assert_eq!(damaged(0, 12, b'J'), Err("the checksum of a part is wrong"));
    assert_eq!(damaged(1, 2, 0), Err("a marker is missing"));
    assert_eq!(damaged(1, 27, 0), Err("it has no pixels"));
    assert_eq!(damaged(2, 6, 0), Err("it has no pixels"));
    assert_eq!(damaged(2, 19, 0), Err("a part is wrong"));
    assert_eq!(damaged(3, 23, 0), Err("its header is wrong"));
    assert_eq!(damaged(3, 15, b'9'), Err("its header is wrong"));
    assert_eq!(damaged(3, 4, 0xff), Err(CUT));
}
