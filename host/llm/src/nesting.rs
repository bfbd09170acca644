//! Whether text that comes in pieces is a whole JSON object so far, told from each byte once. Only parsing proves it.

/// The state between two pieces.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    stage: Stage,
    /// Braces and brackets that are open.
    depth: usize,
    in_string: bool,
    /// The byte before was a backslash within a string.
    is_escaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Blanks, or nothing yet.
    #[default]
    Before,
    Within,
    /// As many braces and brackets were closed as were opened; only blanks may follow.
    Whole,
    /// No object, whatever may follow.
    Never,
}

impl Nesting {
    pub fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match self.stage {
                Stage::Within => self.take(byte),
                Stage::Never => return,
                Stage::Before if byte == b'{' => (self.stage, self.depth) = (Stage::Within, 1),
                Stage::Before | Stage::Whole if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => {}
                Stage::Before | Stage::Whole => self.stage = Stage::Never,
            }
        }
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.stage = Stage::Whole;
                }
            }
            _ => {}
        }
    }

    /// Whether an object was opened and closed. True of all text that is one, and of some that is none.
    pub fn is_whole(&self) -> bool {
        self.stage == Stage::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_whole_with_its_last_brace() {
        for (text, expect) in [
            ("", false),
            (" ", false),
            ("{}", true),
            ("\n{} \t\r\n", true),
            ("{}{", false),
            ("{}}", false),
            ("[]", false),
            ("null", false),
            ("x{}", false),
            (r#"{"a":[{}"#, false),
            (r#"{"a":[{}]}"#, true),
            (r#"{"a":"}"#, false),
            (r#"{"a":"\"}"#, false),
            (r#"{"a":"\\"}"#, true),
            (r#"{"a":"\\\"}"}"#, true),
            (r#"{"{":"["}"#, true),
            ("{\"é\":\"\u{1f600}\"}", true),
            ("{'a'}", true),
        ] {
            let mut whole = Nesting::default();
            whole.push(text);
            let mut pieces = Nesting::default();
            text.chars().for_each(|c| pieces.push(c.encode_utf8(&mut [0; 4])));
            assert_eq!((whole.is_whole(), pieces.is_whole()), (expect, expect), "{text}");
        }
    }
}
