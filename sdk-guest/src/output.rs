use crate::{Content, Image, Output, Question, Verdict};

/// What a tool gives back, built up: `Output::text("done").details(&facts)`.
impl Output {
    /// A result that is one block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::content(vec![Content::Text(text.into())])
    }

    /// A result of several blocks.
    pub fn content(content: Vec<Content>) -> Self {
        Self { content, is_error: false, structured: None, details: None, terminate: false }
    }

    /// One block of text more.
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.content.push(Content::Text(text.into()));
        self
    }

    /// One image more; `mime_type` is an IANA media type.
    pub fn and_image(mut self, mime_type: impl Into<String>, data: Vec<u8>) -> Self {
        self.content.push(Content::Image(Image { mime_type: mime_type.into(), data }));
        self
    }

    /// The work was done and failed: the model reads the text as an error's. Wrong input is an [`Error`](crate::Error).
    pub fn error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Data for views, scripts and this plugin's own later calls; the model does not read it. What cannot be written as
    /// JSON is left out.
    pub fn details(mut self, details: &impl serde::Serialize) -> Self {
        self.details = serde_json::to_string(details).ok();
        self
    }

    /// [`Output::details`], where there are any.
    pub fn details_if(self, details: Option<&impl serde::Serialize>) -> Self {
        match details {
            Some(details) => self.details(details),
            None => self,
        }
    }

    /// Data as the tool's output schema says, for scripts and calling plugins. What cannot be written as JSON is left out.
    pub fn structured(mut self, value: &impl serde::Serialize) -> Self {
        self.structured = serde_json::to_string(value).ok();
        self
    }

    /// The text that the model reads: all blocks of text, a line break between two.
    pub fn to_text(&self) -> String {
        text_of(&self.content)
    }

    /// Ends the run after this batch, if every call of the batch says so.
    pub fn terminate(mut self) -> Self {
        self.terminate = true;
        self
    }
}

pub(crate) fn text_of(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What a gate answers.
impl Verdict {
    /// Nothing runs; the reason becomes the tool's error result. It names the rule and the way out.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny(reason.into())
    }

    /// A person decides; denied where nobody can answer.
    pub fn ask(text: impl Into<String>) -> Self {
        Self::Ask(Question { text: text.into(), remember: None })
    }

    /// A person decides, and the host offers "for this session" under `key`.
    pub fn ask_once(text: impl Into<String>, key: impl Into<String>) -> Self {
        Self::Ask(Question { text: text.into(), remember: Some(key.into()) })
    }
}
