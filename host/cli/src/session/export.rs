//! `pith session export`: a session as a page, as Markdown or as JSON lines.

use crate::{
    failure::{DONE, Failure},
    harmless::harmless_line,
};
use pith_runtime::{ExchangeError, ExportFormat, ExportOrder, export_session, export_to_file};
use serde_json::json;
use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

/// Of a name, the characters that a file's name has at most.
const NAME_CHARS: usize = 60;

/// What is asked for.
pub struct Export {
    /// The session file.
    pub file: PathBuf,
    /// Without one the target's extension says it; without that a page.
    pub format: Option<ExportFormat>,
    /// `-` is standard output; none is a file in the present folder that is named after the session.
    pub target: Option<PathBuf>,
    /// Of JSON lines only the path to the leaf.
    pub is_path_only: bool,
    /// A file that is there is replaced.
    pub force: bool,
    /// What was written is said as JSON.
    pub json: bool,
}

/// Does it.
pub fn follow(export: &Export) -> Result<u8, Failure> {
    let refused = |error: ExchangeError| Failure::refused(&error);
    let by_target = export.target.as_deref().and_then(ExportFormat::of_file);
    let format = export.format.or(by_target).unwrap_or(ExportFormat::Html);
    let order = ExportOrder { format, is_path_only: export.is_path_only };
    if export.target.as_deref() == Some(Path::new("-")) {
        let out = std::io::stdout().lock();
        // Escapes are out of everything but JSON lines, which escape them.
        let mut out = std::io::BufWriter::with_capacity(64 << 10, out);
        return match export_session(&export.file, order, &mut out) {
            Ok(exported) => {
                tell(&exported.notices);
                Ok(DONE)
            }
            // A reader that left, such as `head`, has what it wanted.
            Err(ExchangeError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(DONE),
            Err(error) => Err(refused(error)),
        };
    }
    let target = match &export.target {
        Some(target) if target.is_dir() => target.join(file_name(&export.file, format)),
        Some(target) => target.clone(),
        None => PathBuf::from(file_name(&export.file, format)),
    };
    let exported = export_to_file(&export.file, order, &target, export.force).map_err(refused)?;
    tell(&exported.notices);
    let text = if export.json {
        let shown = json!({ "id": exported.id, "title": exported.title, "file": target, "notices": exported.notices });
        format!("{shown}\n")
    } else {
        format!("{}\n", harmless_line(&target.display().to_string(), 4096))
    };
    crate::failure::hand_over(text.as_bytes())
}

/// What people should know, where they see it.
fn tell(notices: &[String]) {
    let mut err = std::io::stderr().lock();
    if !err.is_terminal() && notices.is_empty() {
        return;
    }
    for notice in notices.iter().take(20) {
        let _ = writeln!(err, "note: {}", harmless_line(notice, 2000));
    }
}

/// After the session file, whose name begins with the time and ends with the id.
fn file_name(file: &Path, format: ExportFormat) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let stem: String = stem.chars().map(plain).take(NAME_CHARS).collect();
    let stem = stem.trim_start_matches('.');
    let stem = if stem.is_empty() { "session" } else { stem };
    format!("pith-{stem}.{}", format.extension())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_their_session() {
        let name = |file: &str| file_name(Path::new(file), ExportFormat::Html);
        assert_eq!(name("/x/2026-11-30T17-04-16-101Z_01a2.jsonl"), "pith-2026-11-30T17-04-16-101Z_01a2.html");
        assert_eq!(name("/x/..é \n.jsonl"), "pith-___.html");
        assert_eq!(name("/x/.jsonl"), "pith-jsonl.html");
    }
}
