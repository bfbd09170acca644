use pith_sdk::text::{brief, count};
use pith_sdk::{Context, Error, Execution, Output, Property, Schema, Tool};
use serde::Deserialize;

use crate::disk::{self, Written};
use crate::place;

/// The tool `write`: a whole file.
pub struct Write;

/// What `write` is called with.
#[derive(Deserialize, pith_sdk::Input)]
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
        let path = place::given(&input.path)?;
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Error::invalid(format!("`{path}` is a folder; name a file to write.")));
            }
            Ok(metadata) if !metadata.is_file() => {
                return Err(Error::invalid(format!("`{path}` is not a regular file; name another one to write.")));
            }
            _ => {}
        }
        if input.path.ends_with('/') {
            return Err(Error::invalid(format!(
                "`{}` ends with `/`, as a folder does. Name a file in it: its folders are made with it.",
                brief(&input.path)
            )));
        }
        let bytes = count(input.content.len(), "byte");
        let written =
            disk::write(path.as_ref(), input.content.as_bytes()).map_err(|error| path.explain("write", &error))?;
        let mut text = match written {
            Written::New => format!("Successfully wrote {bytes} to the new file {path}."),
            Written::Over => format!("Successfully wrote {bytes} over {path}."),
            Written::Same => format!("{path} has exactly this content already ({bytes}); it was left as it is."),
        };
        if written == Written::New
            && !path.shown().is_ascii()
            && let Some(other) = place::twin(&path)
        {
            text.push_str(&format!(" Note that `{other}` is there too: a different name that looks the same."));
        }
        Ok(Output::text(text))
    }
}
