use std::io::{BufRead, BufReader};

use pith_sdk::paths::GuestPath;
use pith_sdk::text::{count, shell_word, size};
use pith_sdk::{Context, Error, Output, Property, Schema, Tool};
use serde::Deserialize;

use crate::bmp::Bmp;
use crate::disk::{self, MAX_EDIT_BYTES};
use crate::image::{Format, MAX_SIDE, Sides};
use crate::page::{Page, PastEnd};
use crate::place;
use crate::sniff::{Endian, Kind, Known, SNIFF_BYTES, kind, utf16};

/// The largest image that is shown, 4.5 MiB in base64.
const MAX_IMAGE_BYTES: u64 = 4_718_592 / 4 * 3;
/// How much of a file is read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The tool `read`: some lines of a text file, or an image.
pub struct Read;

/// What `read` is called with.
#[derive(Deserialize, pith_sdk::Input)]
pub struct ReadInput {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Tool for Read {
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = "Read a file. Text is shown from the start or from line `offset`, at most 2000 lines or 50KB at once; a notice at the end names the offset that continues. Images (png, jpg, gif, webp, bmp) are shown as images.";
    const GUIDELINES: &'static [&'static str] = &["Use read to examine files instead of cat or sed."];
    const META: Option<&'static str> = Some(r#"{"readOnlyHint":true}"#);
    type Input = ReadInput;

    fn schema() -> Schema {
        Schema::object()
            .required("path", Property::string("The file: relative to the working folder, or absolute."))
            .optional("offset", Property::integer("The line to start at, from 1.").at_least(1))
            .optional("limit", Property::integer("How many lines to read at most.").at_least(1))
    }

    fn run(input: ReadInput, _: &Context) -> Result<Output, Error> {
        let written = place::given(&input.path)?;
        let (path, file, bytes) = match disk::open(&written) {
            Ok((file, bytes)) => (written.clone(), file, bytes),
            Err(disk::Unopened::Error(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                let Some(path) = place::look_alike(&written) else { return Err(written.explain("read", &error)) };
                let (file, bytes) = disk::open(&path).map_err(|unopened| unopened.explain(&path, "read"))?;
                (path, file, bytes)
            }
            Err(unopened) => return Err(unopened.explain(&written, "read")),
        };
        let explain = |error: std::io::Error| path.explain("read", &error);
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let first = reader.fill_buf().map_err(explain)?;
        let output = match kind(&first[..first.len().min(SNIFF_BYTES)]) {
            Kind::Image(format) => image(&path, format, bytes),
            Kind::Utf16(endian) => utf16_text(&path, endian, bytes, &input),
            Kind::Binary(known) => Err(binary(&path, known, bytes)),
            Kind::Text => text(&path, &mut reader, &input, None),
        }?;
        Ok(place::noted(output, &path, &written))
    }
}

fn text(path: &GuestPath, reader: &mut impl BufRead, input: &ReadInput, note: Option<String>) -> Result<Output, Error> {
    let asked = input.offset.unwrap_or(1);
    let offset = usize::try_from(asked).unwrap_or(usize::MAX);
    let limit = input.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    match Page::read(reader, offset, limit).map_err(|error| path.explain("read", &error))? {
        Err(PastEnd(0)) => Err(Error::invalid(format!("`{path}` is empty: there is no line {asked}."))),
        Err(PastEnd(lines)) => {
            Err(Error::invalid(format!("Offset {asked} is beyond the end of `{path}` ({}).", count(lines, "line"))))
        }
        Ok(page) => Ok(Output::text(page.to_text(path.shown(), note)).details_if(page.cut().if_any())),
    }
}

/// Decoded, which costs the whole file in memory: so only what `edit` would hold too.
fn utf16_text(path: &GuestPath, endian: Endian, bytes: u64, input: &ReadInput) -> Result<Output, Error> {
    let name = match endian {
        Endian::Little => "UTF-16LE",
        Endian::Big => "UTF-16BE",
    };
    let word = shell_word(path.shown());
    let convert = format!("iconv -f UTF-16 -t UTF-8 {word}");
    let (data, has_more) = disk::read_up_to(path, MAX_EDIT_BYTES).map_err(|error| path.explain("read", &error))?;
    if has_more {
        return Err(Error::limit(format!(
            "`{path}` is text in {name} of {}; at most {} of it can be decoded. Read a part with a shell command: {convert} | head -c 50000",
            size(bytes),
            size(MAX_EDIT_BYTES)
        )));
    }
    let note = format!(
        "The file is {name}, shown decoded. edit cannot change it: use a shell command, or convert it first: {convert}"
    );
    text(path, &mut utf16(&data, endian).as_bytes(), input, Some(note))
}

fn binary(path: &GuestPath, known: Option<Known>, bytes: u64) -> Error {
    let word = shell_word(path.shown());
    Error::invalid(match known {
        Some(Known { what, command: (before, after) }) => format!(
            "`{path}` is {what} ({}), which read cannot show. Look at it with a shell command: {before}{word}{after}",
            size(bytes)
        ),
        None => format!(
            "`{path}` is a binary file ({}), which read cannot show. Look at it with a shell command, such as: file {word} or xxd {word} | head",
            size(bytes)
        ),
    })
}

fn image(path: &GuestPath, format: Format, bytes: u64) -> Result<Output, Error> {
    let word = shell_word(path.shown());
    let mime_type = format.mime_type();
    let smaller =
        format!("Make a smaller copy with a shell command and read that: magick {word} -resize 2000x2000 smaller.jpg");
    let too_large = |bytes: u64| {
        let (mut is, mut most) = (size(bytes), size(MAX_IMAGE_BYTES));
        if is == most {
            (is, most) = (format!("{bytes} bytes"), format!("{MAX_IMAGE_BYTES} bytes"));
        }
        Error::limit(format!("`{path}` is an image of {is}; at most {most} can be shown. {smaller}"))
    };
    if bytes > MAX_IMAGE_BYTES {
        return Err(too_large(bytes));
    }
    let (data, has_more) = disk::read_up_to(path, MAX_IMAGE_BYTES).map_err(|error| path.explain("read", &error))?;
    // It may have grown since.
    if has_more {
        return Err(too_large(MAX_IMAGE_BYTES + 1));
    }
    let Sides { width, height } = format.check(&data).map_err(|wrong| {
        Error::invalid(format!(
            "`{path}` begins as an image ({mime_type}) but cannot be shown: {wrong}. Look at its bytes with a shell command: file {word}; xxd {word} | head"
        ))
    })?;
    if width.max(height) > MAX_SIDE {
        return Err(Error::limit(format!(
            "`{path}` is an image of {width}x{height} pixels; at most {MAX_SIDE} a side can be shown. {smaller}"
        )));
    }
    if format != Format::Bmp {
        return Ok(Output::text(format!("Read image file [{mime_type}, {width}x{height}]")).and_image(mime_type, data));
    }
    match Bmp::new(&data) {
        Ok(bmp) if bmp.png_bytes() <= MAX_IMAGE_BYTES => {
            let note = format!("Read image file [{mime_type}, {width}x{height}, shown as image/png]");
            Ok(Output::text(note).and_image("image/png", bmp.to_png()))
        }
        Ok(bmp) => Err(too_large(bmp.png_bytes())),
        Err(wrong) => Err(Error::invalid(format!("`{path}` cannot be shown: {wrong}."))),
    }
}

#[cfg(test)]
mod tests {
    use pith_sdk::Content;
    use pith_sdk::serde_json::json;
    use pith_sdk::testing::Place;

    use super::*;
    use crate::image::Format;

    #[test]
    fn an_image_that_is_a_little_too_large_is_told_in_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
        image.resize(usize::try_from(MAX_IMAGE_BYTES).unwrap() + 1, 0);
        std::fs::write(folder.path().join("x.png"), image).unwrap();
        let error = Place::new(folder.path()).call::<Read>(&json!({ "path": "x.png" })).unwrap_err().message;
        let said = "`x.png` is an image of 3538945 bytes; at most 3538944 bytes can be shown. Make";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn a_bitmap_is_shown_as_a_format_that_providers_take() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.bmp"), crate::bmp::tests::two_by_two(24)).unwrap();
        let output = Place::new(folder.path()).call::<Read>(&json!({ "path": "x.bmp" })).unwrap();
        let [Content::Text(text), Content::Image(image)] = &output.content[..] else { panic!("{:?}", output.content) };
        assert_eq!(text, "Read image file [image/bmp, 2x2, shown as image/png]");
        assert_eq!(image.mime_type, "image/png");
        assert_eq!(Format::Png.check(&image.data), Ok(Sides { width: 2, height: 2 }));
    }
}
