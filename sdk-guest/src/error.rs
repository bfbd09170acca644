use std::fmt::Display;

use crate::{Error, ErrorKind};

/// Refusals, by kind. The message is one sentence, fit to be shown to the model: it says what to do next.
///
/// A plugin's own errors become refusals by `From`, and `?` does the rest:
///
/// ```
/// use pith_sdk::{Error, Explain};
///
/// enum NoteError {
///     Missing(String),
///     Full { notes: usize },
/// }
///
/// impl From<NoteError> for Error {
///     fn from(error: NoteError) -> Self {
///         match error {
///             NoteError::Missing(name) => Error::not_found(format!("There is no note `{name}`; list them first.")),
///             NoteError::Full { notes } => Error::limit(format!("There are {notes} notes already; remove one.")),
///         }
///     }
/// }
///
/// fn note(name: &str) -> Result<u32, Error> {
///     if name.is_empty() {
///         Err(NoteError::Full { notes: 9 })?;
///     }
///     name.parse().with_context(|| format!("the note's number `{name}`"))
/// }
///
/// assert_eq!(note("").unwrap_err().message, "There are 9 notes already; remove one.");
/// assert_eq!(note("x").unwrap_err().message, "the note's number `x`: invalid digit found in string");
/// ```
impl Error {
    /// A refusal of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The caller's input is wrong; the message says where.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// What was named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The authority to do this was not granted.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// Somebody else was faster; read again and retry.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// It may work later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// A size, time or count limit was reached.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// The plugin itself is at fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.message == other.message
    }
}

impl Eq for Error {}

/// Says what was tried when something failed: `parse(&text).context("the configuration")?`.
pub trait Explain<T> {
    /// The refusal with `what: ` before its message; its kind stays.
    fn context(self, what: impl Display) -> Result<T, Error>;

    /// [`Explain::context`] whose words are only made where they are needed.
    fn with_context<W: Display>(self, what: impl FnOnce() -> W) -> Result<T, Error>;

    /// A refusal of this kind, whatever it was before.
    fn kind(self, kind: ErrorKind) -> Result<T, Error>;
}

impl<T, E: Into<Error>> Explain<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, Error> {
        self.with_context(|| what)
    }

    fn with_context<W: Display>(self, what: impl FnOnce() -> W) -> Result<T, Error> {
        self.map_err(|error| {
            let error = error.into();
            Error::new(error.kind, format!("{}: {}", what(), error.message))
        })
    }

    fn kind(self, kind: ErrorKind) -> Result<T, Error> {
        self.map_err(|error| Error::new(kind, error.into().message))
    }
}

/// What the standard library's parsers refuse is `invalid`.
macro_rules! invalid {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::invalid(error.to_string())
            }
        }
    )*};
}

invalid!(
    serde_json::Error,
    std::num::ParseIntError,
    std::num::ParseFloatError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
);

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied => ErrorKind::Denied,
            Io::InvalidInput | Io::InvalidData | Io::IsADirectory | Io::NotADirectory => ErrorKind::Invalid,
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::Limit,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
