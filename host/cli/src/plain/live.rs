//! Partial output as a stream: each update is the output so far, or its end; what is new of it is shown once.

/// Of what was shown, what is looked for in the next update, in bytes.
const ANCHOR_BYTES: usize = 512;

/// What was shown of one call's output.
#[derive(Debug)]
pub struct Live {
    /// The end of what was shown; all of it while that is short.
    anchor: String,
    whole: bool,
}

impl Live {
    /// Nothing was shown.
    pub fn new() -> Self {
        Self { anchor: String::new(), whole: true }
    }

    /// What of the output so far was not shown yet, and whether something between is missing.
    pub fn fresh<'a>(&mut self, output: &'a str) -> (&'a str, bool) {
        let from = if self.whole && output.starts_with(&self.anchor) {
            Some(self.anchor.len())
        } else {
            output.rfind(&self.anchor).map(|at| at + self.anchor.len())
        };
        let (fresh, gap) = match from {
            Some(from) => (output.get(from..).unwrap_or_default(), false),
            None => (output, true),
        };
        if gap {
            self.anchor.clear();
            self.whole = true;
        }
        self.anchor.push_str(fresh);
        if self.anchor.len() > ANCHOR_BYTES {
            let cut = self.anchor.ceil_char_boundary(self.anchor.len() - ANCHOR_BYTES);
            self.anchor.drain(..cut);
            self.whole = false;
        }
        (fresh, gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_output_is_shown_once() {
        let mut live = Live::new();
        assert_eq!(live.fresh("a\n"), ("a\n", false));
        assert_eq!(live.fresh("a\na\n"), ("a\n", false));
        assert_eq!(live.fresh("a\na\n"), ("", false));
        assert_eq!(live.fresh("a\na\nb"), ("b", false));
        let long = format!("a\na\nb{}", "é0123456789".repeat(100));
        assert_eq!(live.fresh(&long).0.len(), long.len() - 5);
        let tail = format!("[last lines]\n{}more", &long[long.ceil_char_boundary(600)..]);
        assert_eq!(live.fresh(&tail), ("more", false));
        assert_eq!(live.fresh("quite another end"), ("quite another end", true));
        assert_eq!(live.fresh("quite another end, and on"), (", and on", false));
    }
}
