//! `bash` without a host: the plugin's own code over a real bash, with the process layer that the host has.

use pith_os::{Background, Child, Chunk, Command, ProcessError, SpoolDir, Whole, find_program};
use pith_plugin_shell::{
    follow::{Exit, Piece, Program, follow},
    tool::BashInput,
};
use pith_sdk::{Error, Output};
use serde_json::Value;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// As the host: output beyond it goes to the spool.
const KEEP_BYTES: usize = pith_plugin::limits::SPAWN_KEEP_BYTES;

/// How long output is gathered, as the host does where there is much of it.
const GATHERING: Duration = Duration::from_millis(5);

/// One call in this working folder.
///
/// # Panics
/// Where there is no bash, or no place for a spool.
pub(crate) fn call(folder: &Path, tool: &str, arguments: &Value) -> Result<Output, Error> {
    assert_eq!(tool, "bash", "{tool} has no native form");
    let input: BashInput = serde_json::from_value(arguments.clone())?;
    let plan = input.plan("your final answer")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let spool = tempfile::tempdir().expect("a temporary folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let command = Command {
        program: find_program("bash", &path, &[]).expect("bash"),
        args: input.args().into_iter().map(Into::into).collect(),
        cwd: folder.to_path_buf(),
        env: vec![("PATH".into(), path), ("HOME".into(), folder.into())],
        merge_stderr: true,
        timeout: plan.timeout.as_ref().map(|timeout| Duration::from_millis(timeout.ms().into())),
        ..Command::default()
    };
    let child = {
        let _entered = runtime.enter();
        Child::spawn(command).map_err(|error| Error::internal(error.to_string()))?
    };
    let spool = SpoolDir::new(spool.path()).expect("a spool");
    let whole = Whole::new(spool, "bash".to_owned(), KEEP_BYTES);
    let mut native = Native { running: Some((child, whole)), left: None, since: Instant::now(), runtime };
    let answer = follow(&mut native, &plan, &mut |_| {})?;
    let output = Output::text(answer.text).details(&answer.details);
    Ok(if answer.is_error { output.error() } else { output })
}

struct Native {
    /// None once it was left running.
    running: Option<(Child, Whole)>,
    /// Held, so that it runs while the call does.
    left: Option<Background>,
    since: Instant,
    runtime: Runtime,
}

impl Program for Native {
    fn next(&mut self, wait: Duration) -> Result<Option<Piece>, Error> {
        let (child, whole) = self.running.as_mut().expect("it was not left");
        match self.runtime.block_on(child.next(Some(wait))) {
            Ok(Chunk::Stdout(mut bytes) | Chunk::Stderr(mut bytes)) => {
                let until = Instant::now() + GATHERING;
                while bytes.len() < pith_plugin::limits::CHUNK_BYTES {
                    let left = until.saturating_duration_since(Instant::now());
                    match self.runtime.block_on(child.next(Some(left))) {
                        Ok(Chunk::Stdout(more) | Chunk::Stderr(more)) => bytes.extend_from_slice(&more),
                        // Both are said again.
                        Ok(Chunk::Exit(_)) | Err(_) => break,
                    }
                }
                whole.append(&bytes);
                Ok(Some(Piece::Output(bytes)))
            }
            Ok(Chunk::Exit(exit)) => Ok(Some(Piece::Exit(Exit {
                code: exit.code,
                signal: exit.signal,
                timed_out: exit.timed_out,
                spool: whole.path().map(|path| path.to_string_lossy().into_owned()),
            }))),
            Err(ProcessError::Limit) => Ok(None),
            Err(error) => Err(Error::internal(error.to_string())),
        }
    }

    fn kill(&mut self) {
        if let Some((child, _)) = &mut self.running {
            child.kill();
        }
    }

    fn leave(&mut self) -> Result<String, Error> {
        let (child, whole) = self.running.take().expect("it is left once");
        let file = whole.into_file()?;
        let path = file.path().to_string_lossy().into_owned();
        let _entered = self.runtime.enter();
        self.left = Some(Background::new(child, file, self.since, ()));
        Ok(path)
    }
}
