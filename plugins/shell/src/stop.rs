//! What is said of a command that ran in the background and is over.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use pith_sdk::text::with_notices;

use crate::tail::Tail;

/// How many of its last lines are shown.
const LINES: usize = 20;
/// How many bytes of the file's end are read for them.
const BYTES: u64 = 32 * 1024;

/// The text for the model. The file's last line is the host's: how the command ended.
///
/// Errors: the file cannot be read.
pub fn stopped(output: &Path, was_running: bool) -> io::Result<String> {
    let mut file = File::open(output)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    let mut tail = Tail::default();
    tail.push(&bytes);
    let kept = tail.kept();
    let lines: Vec<&str> = kept.text.lines().collect();
    let shown = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let what = if was_running { "Stopped." } else { "It had ended already." };
    let is_all = length <= BYTES && lines.len() <= LINES;
    let (which, notices) = match is_all {
        true => ("Its output", Vec::new()),
        false => ("The end of its output", vec![format!("Full output: {}", output.display())]),
    };
    Ok(with_notices(&format!("{what} {which}:\n\n{shown}"), &notices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_output_is_shown() {
        let file = std::env::temp_dir().join(format!("pith-stopped-{}", std::process::id()));
        std::fs::write(&file, "ready\n[stopped after 2.0 s]\n").unwrap();
        assert_eq!(stopped(&file, true).unwrap(), "Stopped. Its output:\n\nready\n[stopped after 2.0 s]");
        let many: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
        std::fs::write(&file, many).unwrap();
        let text = stopped(&file, false).unwrap();
        assert!(text.starts_with("It had ended already. The end of its output:\n\nline 4981\n"), "{text}");
        assert!(text.ends_with(&format!("line 5000\n\n[Full output: {}]", file.display())), "{text}");
        std::fs::remove_file(&file).unwrap();
        assert!(stopped(&file, true).is_err());
    }
}
