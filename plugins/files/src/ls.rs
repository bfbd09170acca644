use std::borrow::Cow;
use std::path::Path;

use pith_sdk::paths::{Entries, Entry, EntryKind, GuestPath};
use pith_sdk::text::listed;
use pith_sdk::{Context, Error, Output, Property, Schema, Tool};
use serde::Deserialize;

use crate::listing::{DEFAULT_ENTRIES, MAX_ENTRIES, list};
use crate::place;

/// The replacement character.
const NAMELESS: &str = "\u{fffd}";

/// The tool `ls`: the names in a folder.
pub struct Ls;

/// What `ls` is called with.
#[derive(Deserialize, pith_sdk::Input)]
pub struct LsInput {
    path: Option<String>,
    limit: Option<u64>,
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
        let written = input.path.as_deref().unwrap_or(".");
        if !written.is_empty() {
            // Where it lies outside, the refusal says how to grant a folder: this one.
            GuestPath::granted(&format!("{written}/"))?;
        }
        let written = place::given(written)?;
        let mut path = written.clone();
        let mut metadata = std::fs::metadata(&path);
        if metadata.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            && let Some(other) = place::look_alike(&path)
        {
            metadata = std::fs::metadata(&other);
            path = other;
        }
        let metadata = metadata.map_err(|error| path.explain("list", &error))?;
        if !metadata.is_dir() {
            return Err(Error::invalid(if metadata.is_file() {
                format!("`{path}` is a file, not a folder. Read it with read.")
            } else {
                format!("`{path}` is not a folder.")
            }));
        }
        let Entries { entries, is_all } = path.entries(MAX_ENTRIES)?;
        let mut shown = Vec::with_capacity(entries.len());
        let mut unnamed = 0;
        for Entry { mut name, kind } in entries {
            // What the host gives for a name that is no UTF-8: it can be neither shown nor opened.
            if name == NAMELESS {
                unnamed += 1;
                continue;
            }
            let is_folder = match kind {
                EntryKind::Folder => true,
                // A link is a folder if what it leads to is one, and is reachable.
                EntryKind::Link => {
                    std::fs::metadata(Path::new(path.absolute()).join(&name)).is_ok_and(|to| to.is_dir())
                }
                EntryKind::File | EntryKind::Other => false,
            };
            if let Cow::Owned(quoted) = listed(&name) {
                name = quoted;
            }
            if is_folder {
                name.push('/');
            }
            shown.push(name);
        }
        let limit = input.limit.map_or(DEFAULT_ENTRIES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let listing = list(shown, limit, is_all, unnamed);
        let output = Output::text(listing.text).details_if(listing.cut.if_any());
        Ok(place::noted(output, &path, &written))
    }
}
