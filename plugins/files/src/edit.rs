use pith_sdk::text::{count, shell_word, size};
use pith_sdk::{Context, Error, Execution, Output, Property, Schema, Tool};
use serde::{Deserialize, Serialize};

use crate::diff::Diff;
use crate::disk::{self, MAX_EDIT_BYTES, Replaced};
use crate::sniff::{Kind, SNIFF_BYTES, kind};
use crate::{matching, place};

/// The largest diff that is kept in the details.
const MAX_DIFF_BYTES: usize = 256 * 1024;

/// The tool `edit`: some texts of one file.
pub struct Edit;

/// What views show of an edit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    /// Lines with their numbers.
    diff: Option<String>,
    /// The same as a unified diff.
    patch: Option<String>,
    first_changed_line: Option<usize>,
}

/// What `edit` is called with.
#[derive(Deserialize, pith_sdk::Input)]
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
        let path = place::given(&input.path)?;
        disk::open(&path).map_err(|unopened| unopened.explain(&path, "edit"))?;
        let explain = |error: std::io::Error| path.explain("edit", &error);
        let (bytes, has_more) = disk::read_up_to(&path, MAX_EDIT_BYTES).map_err(explain)?;
        if has_more {
            return Err(Error::limit(format!(
                "`{path}` is larger than {}, the most that edit works on. Change it with a shell command, such as sed.",
                size(MAX_EDIT_BYTES)
            )));
        }
        if bytes.is_empty() {
            return Err(Error::invalid(format!(
                "`{path}` is empty: there is nothing to replace. Use write to give it content."
            )));
        }
        match kind(&bytes[..bytes.len().min(SNIFF_BYTES)]) {
            Kind::Text => {}
            Kind::Utf16(_) => {
                return Err(Error::invalid(format!(
                    "`{path}` is text in UTF-16, which edit cannot change. Convert it first with a shell command, and back afterwards if need be: iconv -f UTF-16 -t UTF-8 {}",
                    shell_word(path.shown())
                )));
            }
            Kind::Image(_) | Kind::Binary(_) => {
                return Err(Error::invalid(format!(
                    "`{path}` is not a text file; edit does not touch it. Use a shell command."
                )));
            }
        }
        let edited = matching::apply(&bytes, &input.edits, path.shown())?;
        if disk::replace(path.as_ref(), &bytes, &edited.bytes).map_err(explain)? == Replaced::Moved {
            return Err(Error::conflict(format!(
                "`{path}` was changed by somebody else meanwhile; nothing was written. Read it again and repeat the edit."
            )));
        }
        let diff = Diff::new(&bytes, &edited.bytes, &edited.replacements);
        let mut text = format!("Successfully replaced {} in {path}.", count(input.edits.len(), "block"));
        if edited.loose > 0 {
            text.push_str(" (Found by ignoring trailing white space and the shape of quotes, dashes and spaces.)");
        }
        Ok(Output::text(text).details(&Details {
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
