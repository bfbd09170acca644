//! Server-sent events, from bytes split anywhere.
//!
//! Tolerant: LF, CRLF and CR end a line, also mixed; a byte order mark and blanks before a field's name are skipped; bytes that are no
//! UTF-8 become U+FFFD; the last event needs no blank line. Fields other than `event` and `data` are skipped.

/// The most bytes that one event may take, in bytes. One event holds one delta, or at most one whole tool call.
pub const SSE_EVENT_LIMIT_BYTES: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// What `event:` said; empty where nothing was said.
    pub name: String,
    /// The lines of `data:`, joined by LF.
    pub data: String,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SseError {
    /// An event is longer than the limit.
    #[error("an event of the stream is longer than {limit_bytes} bytes")]
    EventTooLong {
        /// `SSE_EVENT_LIMIT_BYTES`.
        limit_bytes: usize,
    },
}

/// Splits bytes into events.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    past_first_line: bool,
}

impl SseParser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes; gives the events that they complete. After an error the stream is lost.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n' || byte == b'\r');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let held = self.line.len().saturating_add(self.data.len()).saturating_add(self.name.len());
            if held.saturating_add(piece.len()) > SSE_EVENT_LIMIT_BYTES {
                return Err(SseError::EventTooLong { limit_bytes: SSE_EVENT_LIMIT_BYTES });
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// The stream is over: gives an event that no blank line ended.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut rest = &line[..];
        if !std::mem::replace(&mut self.past_first_line, true) {
            rest = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
        }
        if rest.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match rest.iter().position(|&byte| byte == b':') {
            Some(colon) => (&rest[..colon], &rest[colon + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field.trim_ascii_start() {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| SseEvent { name: text(name), data: text(data) })
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &[u8], expect: &[(&str, &str)]) {
        let expect: Vec<_> =
            expect.iter().map(|(name, data)| SseEvent { name: (*name).into(), data: (*data).into() }).collect();
        for size in 1..=stream.len().max(1) {
            let mut parser = SseParser::new();
            let mut events = Vec::new();
            for piece in stream.chunks(size) {
                events.extend(parser.push(piece).unwrap());
            }
            events.extend(parser.finish());
            assert_eq!(events, expect, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn all_line_ends_and_fields() {
        check(b"event: a\ndata: 1\n\ndata:2\n\n", &[("a", "1"), ("", "2")]);
        check(b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", &[("a", "1"), ("", "2")]);
        check(b"event: a\rdata: 1\r\rdata: 2\r\r", &[("a", "1"), ("", "2")]);
        check(b": comment\n\nid: 7\nretry: 5\ndata: one\ndata\ndata:  two\n\n", &[("", "one\n\n two")]);
        check(b"\xef\xbb\xbfdata: x\n\n data: y\n\n", &[("", "x"), ("", "y")]);
        check("data: \u{1f600}é\n\n".as_bytes(), &[("", "\u{1f600}é")]);
        check(b"data: a\xffb\n\n", &[("", "a\u{fffd}b")]);
        check(b"data: [DONE]", &[("", "[DONE]")]);
        check(b"event: nothing\n\n", &[]);
        check(b"", &[]);
    }

    #[test]
    fn an_endless_line_and_an_endless_event_meet_the_limit() {
        let limit = Err(SseError::EventTooLong { limit_bytes: SSE_EVENT_LIMIT_BYTES });
        let piece = vec![b'x'; 1024 * 1024];
        let mut parser = SseParser::new();
        let results: Vec<_> = (0..17).map(|_| parser.push(&piece)).collect();
        assert!(results[..16].iter().all(Result::is_ok));
        assert_eq!(results[16], limit);

        let mut line = b"data: ".to_vec();
        line.extend_from_slice(&piece);
        line.push(b'\n');
        let mut parser = SseParser::new();
        assert_eq!((0..17).map(|_| parser.push(&line)).find(Result::is_err), Some(limit));
    }
}
