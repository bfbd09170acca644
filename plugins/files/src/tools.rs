//! The tools themselves: schemas, and what connects the disk to the pure parts.

use std::fs::File;
use std::io::{BufRead, BufReader};

use pith_sdk::paths::GuestPath;
use pith_sdk::text::{count, size};
use pith_sdk::{Context, Error, Execution, Output, Property, Schema, Tool};
use serde::{Deserialize, Serialize};

use crate::diff::Diff;
use crate::disk::{self, MAX_EDIT_BYTES, Replaced};
use crate::listing::{DEFAULT_ENTRIES, MAX_ENTRIES, list};
use crate::matching;
use crate::page::{Page, PastEnd};
use crate::sniff::{Kind, SNIFF_BYTES, kind};

/// The largest image that is shown, 4.5 MiB in base64.
const MAX_IMAGE_BYTES: u64 = 4_718_592 / 4 * 3;
/// The largest diff that is kept in the details.
const MAX_DIFF_BYTES: usize = 256 * 1024;

/// Opens a regular file; anything else is refused with a sentence, unopened.
fn open(path: &GuestPath, deed: &str) -> Result<(File, u64), Error> {
    let explain = |error: std::io::Error| path.explain(deed, &error);
    let metadata = std::fs::metadata(path).map_err(explain)?;
    if metadata.is_dir() {
        return Err(Error::invalid(format!("`{path}` is a folder. List it with ls, or name a file in it.")));
    }
    if !metadata.is_file() {
        return Err(Error::invalid(format!("`{path}` is not a regular file.")));
    }
    Ok((File::open(path).map_err(explain)?, metadata.len()))
}

pub struct Read;

#[derive(Deserialize)]
pub struct ReadInput {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl Tool for Read {
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = "Read a file. Text is shown from the start or from line `offset`, at most 2000 lines or 50KB at once; a notice at the end names the offset that continues. Images (png, jpg, gif, webp) are shown as images.";
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
        let path = GuestPath::granted(&input.path)?;
        let explain = |error: std::io::Error| path.explain("read", &error);
        let (file, bytes) = open(&path, "read")?;
        let mut reader = BufReader::with_capacity(8 * SNIFF_BYTES, file);
        let first = reader.fill_buf().map_err(explain)?;
        match kind(&first[..first.len().min(SNIFF_BYTES)]) {
            Kind::Image(mime_type) => image(&path, mime_type, bytes),
            Kind::Utf16(encoding) => Err(Error::invalid(format!(
                "`{path}` is text in {encoding}, which read cannot show. Convert it with a shell command: iconv -f {encoding} -t UTF-8 '{path}'"
            ))),
            Kind::Binary => Err(Error::invalid(format!(
                "`{path}` is a binary file ({}), which read cannot show. Look at it with a shell command, such as: file '{path}' or xxd '{path}' | head",
                size(bytes)
            ))),
            Kind::Text => match Page::read(&mut reader, input.offset.unwrap_or(1), input.limit).map_err(explain)? {
                Err(PastEnd(lines)) => Err(Error::invalid(format!(
                    "Offset {} is beyond the end of `{path}` ({}).",
                    input.offset.unwrap_or(1),
                    count(lines, "line")
                ))),
                Ok(page) => Ok(Output::text(page.to_text(path.shown())).details_if(page.details().as_ref())),
            },
        }
    }
}

fn image(path: &GuestPath, mime_type: &str, bytes: u64) -> Result<Output, Error> {
    let too_large = || {
        Error::limit(format!(
            "`{path}` is an image of {}; at most {} can be shown. Make a smaller copy with a shell command and read that.",
            size(bytes),
            size(MAX_IMAGE_BYTES)
        ))
    };
    if bytes > MAX_IMAGE_BYTES {
        return Err(too_large());
    }
    let (data, has_more) =
        disk::read_up_to(path.as_ref(), MAX_IMAGE_BYTES).map_err(|error| path.explain("read", &error))?;
    // It may have grown since.
    if has_more {
        return Err(too_large());
    }
    Ok(Output::text(format!("Read image file [{mime_type}]")).and_image(mime_type, data))
}

pub struct Write;

#[derive(Deserialize)]
pub struct WriteInput {
    path: String,
    content: String,
}

impl Tool for Write {
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = "Write a whole file: it is created with the folders that are missing, or overwritten. To change parts of a file use edit.";
    const EXECUTION: Execution = Execution::Sequential;
    const GUIDELINES: &'static [&'static str] = &["Use write only for new files or complete rewrites."];
    type Input = WriteInput;

    fn schema() -> Schema {
        Schema::object()
            .required("path", Property::string("The file: relative to the working folder, or absolute."))
            .required("content", Property::string("The whole content of the file."))
    }

    fn run(input: WriteInput, _: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(&input.path)?;
        if let Ok(metadata) = std::fs::metadata(&path)
            && !metadata.is_file()
        {
            let what = if metadata.is_dir() { "a folder" } else { "not a regular file" };
            return Err(Error::invalid(format!("`{path}` is {what}; name a file to write.")));
        }
        let bytes = input.content.len();
        let is_new =
            disk::write(path.as_ref(), input.content.as_bytes()).map_err(|error| path.explain("write", &error))?;
        let done = if is_new { "to the new file" } else { "over" };
        Ok(Output::text(format!("Successfully wrote {} {done} {path}.", count(bytes, "byte"))))
    }
}

pub struct Edit;

/// What views show of an edit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EditDetails {
    /// Lines with their numbers.
    diff: Option<String>,
    /// The same as a unified diff.
    patch: Option<String>,
    first_changed_line: Option<usize>,
}

#[derive(Deserialize)]
pub struct EditInput {
    path: String,
    edits: Vec<matching::Edit>,
}

impl Tool for Edit {
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = "Replace texts in one file. Every `oldText` must be in the file exactly once, and no two may overlap; all are found in the file as it was before the call. Merge changes that are near each other into one edit.";
    const EXECUTION: Execution = Execution::Sequential;
    const GUIDELINES: &'static [&'static str] = &[
        "Use edit for precise changes; oldText must be copied exactly from the file.",
        "Several changes to one file go into one edit call, as several entries of edits.",
        "Keep oldText as short as it can be while it is unique in the file.",
    ];
    type Input = EditInput;

    fn schema() -> Schema {
        let edit = Schema::object()
            .required(
                "oldText",
                Property::string("The text to replace, exactly as in the file; unique there.").min_length(1),
            )
            .required("newText", Property::string("The text that takes its place."));
        Schema::object()
            .required("path", Property::string("The file: relative to the working folder, or absolute."))
            .required("edits", Property::objects("The replacements.", edit).min_items(1))
    }

    fn run(input: EditInput, _: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(&input.path)?;
        open(&path, "edit")?;
        let explain = |error: std::io::Error| path.explain("edit", &error);
        let (bytes, has_more) = disk::read_up_to(path.as_ref(), MAX_EDIT_BYTES).map_err(explain)?;
        if has_more {
            return Err(Error::limit(format!(
                "`{path}` is larger than {}, the most that edit works on. Change it with a shell command, such as sed.",
                size(MAX_EDIT_BYTES)
            )));
        }
        let original = std::str::from_utf8(&bytes).map_err(|error| {
            Error::invalid(format!(
                "`{path}` is not UTF-8 text (byte {}); edit does not touch it. Use a shell command.",
                error.valid_up_to()
            ))
        })?;
        let edited = matching::apply(original, &input.edits, path.shown())?;
        if disk::replace(path.as_ref(), &bytes, edited.text.as_bytes()).map_err(explain)? == Replaced::Moved {
            return Err(Error::conflict(format!(
                "`{path}` was changed by somebody else meanwhile; nothing was written. Read it again and repeat the edit."
            )));
        }
        let diff = Diff::new(original, &edited.text, &edited.replacements);
        let mut text = format!("Successfully replaced {} in {path}.", count(input.edits.len(), "block"));
        if edited.loose > 0 {
            text.push_str(" (Found by ignoring trailing white space and the shape of quotes, dashes and spaces.)");
        }
        Ok(Output::text(text).details(&EditDetails {
            diff: short(diff.numbered()),
            patch: short(diff.unified(path.shown())),
            first_changed_line: diff.first_changed_line(),
        }))
    }
}

/// A diff that is too large to keep is left out, not cut: half a patch is none.
fn short(diff: String) -> Option<String> {
    (diff.len() <= MAX_DIFF_BYTES).then_some(diff)
}

pub struct Ls;

/// The replacement character.
const NAMELESS: &str = "\u{fffd}";

#[derive(Deserialize)]
pub struct LsInput {
    path: Option<String>,
    limit: Option<usize>,
}

impl Tool for Ls {
    const NAME: &'static str = "ls";
    const DESCRIPTION: &'static str = "List the names in a folder, dotfiles too, sorted; folders end with `/`. At most 500 entries, or `limit`, and 50KB.";
    const META: Option<&'static str> = Some(r#"{"readOnlyHint":true}"#);
    type Input = LsInput;

    fn schema() -> Schema {
        Schema::object()
            .optional("path", Property::string("The folder; the working folder if absent."))
            .optional("limit", Property::integer("How many entries to show at most; 500 if absent.").at_least(1))
    }

    fn run(input: LsInput, _: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(input.path.as_deref().unwrap_or("."))?;
        let explain = |error: std::io::Error| path.explain("list", &error);
        if !std::fs::metadata(&path).map_err(explain)?.is_dir() {
            return Err(Error::invalid(format!("`{path}` is a file, not a folder. Read it with read.")));
        }
        let mut names = Vec::new();
        let (mut all, mut unnamed) = (true, 0);
        for entry in std::fs::read_dir(&path).map_err(explain)? {
            if names.len() + unnamed == MAX_ENTRIES {
                all = false;
                break;
            }
            let entry = entry.map_err(explain)?;
            let mut name = entry.file_name().to_string_lossy().into_owned();
            // What the host gives for a name that is no UTF-8: it can be neither shown nor opened.
            if name == NAMELESS {
                unnamed += 1;
                continue;
            }
            // A line of its own for each name, whatever the name is.
            name = name.replace(['\n', '\r'], "?");
            let is_folder = match entry.file_type() {
                // A link is a folder if what it leads to is one, and is reachable.
                Ok(kind) if kind.is_symlink() => {
                    std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir())
                }
                Ok(kind) => kind.is_dir(),
                Err(_) => false,
            };
            if is_folder {
                name.push('/');
            }
            names.push(name);
        }
        let listing = list(names, input.limit.unwrap_or(DEFAULT_ENTRIES), all, unnamed);
        Ok(Output::text(listing.text).details_if(listing.details.as_ref()))
    }
}
