//! The shipped tools' own code, linked into the tests: what a row of a table gives without a component, an engine or a dispatch.
//!
//! `read`, `write`, `edit` and `ls` run as they are. `grep`, `find` and `bash` have their host interface answered by `pith_os`, whose mechanism it is.

use crate::{native_search, native_shell, table::Seen};
use pith_sdk::{Content, Error, Output, Tool, testing::Place};
use serde_json::Value;
use std::path::Path;

/// Calls a tool in this working folder.
///
/// # Panics
/// Where the tool has no native form.
pub fn call(tool: &str, folder: &Path, arguments: &Value) -> Seen {
    let place = Place::new(folder);
    let given = match tool {
        "read" => file_tool::<pith_plugin_files::Read>(&place, arguments),
        "write" => file_tool::<pith_plugin_files::Write>(&place, arguments),
        "edit" => file_tool::<pith_plugin_files::Edit>(&place, arguments),
        "ls" => file_tool::<pith_plugin_files::Ls>(&place, arguments),
        "grep" | "find" => native_search::call(folder, tool, arguments),
        "bash" => native_shell::call(folder, tool, arguments),
        _ => panic!("{tool} has no native form"),
    };
    seen(given)
}

fn file_tool<T: Tool>(place: &Place, arguments: &Value) -> Result<Output, Error> {
    place.call::<T>(arguments)
}

/// As the host shows it.
fn seen(given: Result<Output, Error>) -> Seen {
    let output = match given {
        Ok(output) => output,
        Err(refusal) => return Seen { text: refusal.message, is_error: true, ..Seen::default() },
    };
    let mut seen = Seen { is_error: output.is_error, ..Seen::default() };
    for block in output.content {
        match block {
            Content::Text(text) => seen.text.push_str(&text),
            Content::Image(image) => seen.images.push((image.mime_type, image.data)),
            Content::File(file) => seen.text.push_str(&file.name),
        }
    }
    if let Some(details) = output.details {
        seen.details = serde_json::from_str(&details).expect("details are JSON");
    }
    seen
}
