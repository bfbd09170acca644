//! Whether a command leaves something running with `&`. Read as bash reads words and quotes; no grammar.

/// Whether a command starts something with `&` and does not `wait` after it. What `setsid` starts is not counted: where there is no sandbox it
/// runs on.
pub fn has_jobs(command: &str) -> bool {
    !command.contains("setsid") && Reader::new(command).has_jobs()
}

struct Reader<'c> {
    rest: &'c str,
    /// The character before, and the one before that which is no blank.
    before: char,
    before_word: char,
    /// Ends of here-documents whose lines come after this one; whether tabs before the end are left out.
    documents: Vec<(String, bool)>,
}

impl<'c> Reader<'c> {
    fn new(command: &'c str) -> Self {
        Self { rest: command, before: '\n', before_word: '\n', documents: Vec::new() }
    }

    fn has_jobs(mut self) -> bool {
        let mut has_jobs = false;
        while let Some(char) = self.rest.chars().next() {
            let starts_word = self.before.is_whitespace() || ";&|({".contains(self.before);
            let starts_command = starts_word && ";&|({\n".contains(self.before_word);
            let after = &self.rest[char.len_utf8()..];
            match char {
                '\\' => self.pass(after.chars().next().map_or(1, |next| 1 + next.len_utf8())),
                '\'' if self.before == '$' => self.pass_quotes('\'', true),
                '\'' => self.pass_quotes('\'', false),
                '"' => self.pass_quotes('"', true),
                '#' if starts_word => self.pass(self.rest.find('\n').unwrap_or(self.rest.len())),
                '\n' => {
                    self.pass(1);
                    self.pass_documents();
                }
                '(' if after.starts_with('(') => self.pass(self.rest.find("))").map_or(2, |end| end + 2)),
                '<' if after.starts_with("<<") => self.pass(3),
                '<' if after.starts_with('<') => self.note_document(),
                '&' if after.starts_with('&') => self.pass(2),
                // Redirections, `|&`, and what goes on in a `case`.
                '&' if after.starts_with('>') || "<>|;".contains(self.before) => self.pass(1),
                '&' => {
                    has_jobs = true;
                    self.pass(1);
                }
                _ if starts_command && waits(self.rest) => {
                    has_jobs = false;
                    self.pass("wait".len());
                }
                char => self.pass(char.len_utf8()),
            }
        }
        has_jobs
    }

    fn pass(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.before = passed.chars().next_back().unwrap_or(self.before);
        self.before_word =
            passed.chars().rfind(|&char| char == '\n' || !char.is_whitespace()).unwrap_or(self.before_word);
        self.rest = rest;
    }

    /// From a quote to the next one.
    fn pass_quotes(&mut self, quote: char, has_escapes: bool) {
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            if char == quote {
                return self.pass(at + 1);
            }
            if has_escapes && char == '\\' {
                chars.next();
            }
        }
        self.pass(self.rest.len());
    }

    /// `<<END`, `<<'END'`, `<<-END`.
    fn note_document(&mut self) {
        let after = &self.rest[2..];
        let (without_tabs, after) = after.strip_prefix('-').map_or((false, after), |after| (true, after));
        let word = after.trim_start_matches([' ', '\t']);
        let length = word.find(|char: char| char.is_whitespace() || ";&|<>()".contains(char)).unwrap_or(word.len());
        let end = word[..length].replace(['\'', '"', '\\'], "");
        self.documents.push((end, without_tabs));
        self.pass(self.rest.len() - word.len() + length);
    }

    fn pass_documents(&mut self) {
        for (end, without_tabs) in std::mem::take(&mut self.documents) {
            loop {
                let line = self.rest.split_inclusive('\n').next().unwrap_or_default();
                self.pass(line.len());
                let line = line.trim_end_matches('\n');
                if self.rest.is_empty() || end == if without_tabs { line.trim_start_matches('\t') } else { line } {
                    break;
                }
            }
        }
    }
}

/// Whether this begins with the command `wait`.
fn waits(rest: &str) -> bool {
    let after = rest.strip_prefix("wait").map(|after| after.chars().next());
    after.is_some_and(|next| next.is_none_or(|next| next.is_whitespace() || ";&|)}".contains(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_the_shell_are_noticed() {
        for command in [
            "npm start &",
            "npm start & \n",
            "sleep 9 & echo ok",
            "(sleep 9 &)",
            "a && b & c",
            "curl http://x/?a=1&b=2",
            "a >log 2>&1 & b",
            "wait; a & b",
            "a & echo wait",
            "a & wait-for-it",
            "cat <<END &\nx\nEND\n",
            "echo 'it' & b",
            "echo $'it\\'s' & b",
            "cat <<< x & y",
        ] {
            assert!(has_jobs(command), "{command}");
        }
    }

    #[test]
    fn what_is_no_job_is_not() {
        for command in [
            "",
            "a && b",
            "a &&",
            "setsid x &",
            "a &>log; b >&2; c 2>&1; d <&3; e |& f",
            "echo 'a & b' \"c & \\\" d &\" $'\\' &' e \\& f",
            "# a & b\ntrue",
            "a & b & wait",
            "a &\nwait $!; echo ok",
            "(a & wait)",
            "echo $((5 & 3))",
            "cat > x.c <<'END'\nint a = b & c;\nfoo(&a);\nEND\necho done",
            "cat <<-END\n\ta & b\n\tEND\ntrue",
            "cat <<END\na & b",
            "case x in x) a ;& y) b ;;& *) c;; esac",
            "echo 'open & ended",
            "ä \\",
        ] {
            assert!(!has_jobs(command), "{command}");
        }
    }
}
