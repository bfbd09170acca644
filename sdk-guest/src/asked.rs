use crate::process::Command;
use crate::scan::Query;

/// What a search asks, from its defaults: `Query { ignore_case: true, ..Query::lines(path.absolute(), "TODO") }`.
impl Query {
    /// Lines that a regular expression matches, in files beneath this file or folder: at most 1,000 of 500 bytes each, hidden
    /// files left out.
    pub fn lines(root: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { pattern: Some(pattern.into()), ..Self::files(root) }
    }

    /// Paths of files beneath this folder: at most 1,000, hidden ones left out.
    pub fn files(root: impl Into<String>) -> Self {
        Self {
            roots: vec![root.into()],
            pattern: None,
            literal: false,
            ignore_case: false,
            folders: false,
            globs: Vec::new(),
            hidden: false,
            context_lines: 0,
            max_results: 1_000,
            max_line_bytes: 500,
        }
    }
}

/// What a program is run with, from its defaults: `Command::new("git").args(["status", "--short"])`.
impl Command {
    /// A program without arguments, in the session's folder, without input, with no limit but the call's own deadline, and
    /// with standard error merged into standard output.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: None,
            env: Vec::new(),
            stdin: Vec::new(),
            timeout_ms: None,
            merge_stderr: true,
        }
    }

    /// With these arguments more.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// In this folder, absolute.
    #[must_use]
    pub fn within(mut self, folder: impl Into<String>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// With a variable; the grant lists the names that may be set.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// With a limit of its own, in milliseconds.
    #[must_use]
    pub fn timeout_ms(mut self, limit: u32) -> Self {
        self.timeout_ms = Some(limit);
        self
    }
}
