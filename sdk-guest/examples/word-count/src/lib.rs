//! A tool in twenty lines: counts the words of a file.

use pith_sdk::{Context, Error, Output, Property, Schema, Tool, paths::GuestPath};

struct WordCount;

#[derive(serde::Deserialize)]
struct Input {
    path: String,
}

impl Tool for WordCount {
    const NAME: &'static str = "word_count";
    const DESCRIPTION: &'static str = "Counts the words of a text file.";
    type Input = Input;

    fn schema() -> Schema {
        Schema::object().required("path", Property::string("The file, relative to the working folder."))
    }

    fn run(input: Input, _: &Context) -> Result<Output, Error> {
        let path = GuestPath::granted(&input.path)?;
        let text = std::fs::read_to_string(&path).map_err(|error| path.explain("read", &error))?;
        Ok(Output::text(format!("{path} has {} words.", text.split_whitespace().count())))
    }
}

pith_sdk::tools!(WordCount);
