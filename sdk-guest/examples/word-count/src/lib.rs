use pith_sdk::{Context, Error, Input, Output, Tool, paths::GuestPath};

#[derive(serde::Deserialize, Input)]
struct WordCount {
    /// The file, relative to the working folder.
    path: GuestPath,
}

impl Tool for WordCount {
    const NAME: &'static str = "word_count";
    const DESCRIPTION: &'static str = "Counts the words of a text file.";
    type Input = Self;

    fn run(Self { path }: Self, _: &Context) -> Result<Output, Error> {
        let words = path.read_to_string()?.split_whitespace().count();
        Ok(Output::text(format!("{path} has {words} words.")))
    }
}

pith_sdk::tools!(WordCount);

#[cfg(test)]
mod tests {
    use pith_sdk::{serde_json::json, testing::Place};

    use super::WordCount;

    #[test]
    fn counts_words() {
        let place = Place::fresh().with_file("a.txt", "three words here\n");
        let count = |path: &str| place.call::<WordCount>(&json!({ "path": path }));
        assert_eq!(count("a.txt").unwrap().to_text(), "a.txt has 3 words.");
        assert_eq!(count("b.txt").unwrap_err().message, "There is no `b.txt`. Did you mean `a.txt`?");
    }
}
