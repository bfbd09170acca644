//! House: configuration, places, session files, the system prompt, and the wiring of core, models and plugins. The library that programs
//! embed; it never writes to a terminal.
//!
//! ```no_run
//! use pith_protocol::{Content, Event};
//! use pith_runtime::{Environment, Options, SessionChoice, start};
//!
//! # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = Options::new("/home/me/project", Environment::from_process())?;
//! options.session = SessionChoice::Memory;
//! options.model = Some("openai/gpt-5.1".to_owned());
//! let pith = start(options).await?;
//! let mut events = pith.events();
//! let run = pith.prompt(vec![Content::text("What does this project do?")]);
//! let show = async {
//!     while let Some(event) = events.next().await {
//!         match event {
//!             Event::ToolExecutionStart { tool_name, .. } => eprintln!("{tool_name} ..."),
//!             Event::AgentSettled { .. } => break,
//!             _ => {}
//!         }
//!     }
//! };
//! // Events wait for their reader, so run and reader go side by side.
//! let (end, ()) = tokio::join!(run, show);
//! println!("{:?}", end?.stop_reason);
//! # Ok(())
//! # }
//! ```
//!
//! `start` is the way in, `pith` the running session's doors; `sessions`, `shelf` and `store` say which file a session is and how it is written, `index` what
//! all of them come to;
//! `model` chooses who is asked, `plugins` what is loaded, `prompt` what the model is told.

mod clock;
mod environment;
mod exchange;
mod guests;
mod hardening;
pub mod harmless;
mod hint;
mod index;
mod input;
mod library;
mod log;
mod model;
mod notice;
mod picture;
mod pith;
mod places;
mod plugins;
mod prompt;
mod remove;
mod rescue;
mod sandbox;
mod scratch;
mod sessions;
mod settings;
mod shelf;
mod spool;
mod start;
mod store;
mod sweep;
mod usage;

pub use clock::SystemClock;
pub use environment::{BASE_URL_VARIABLES, CREDENTIAL_VARIABLES, CredentialVariable, Environment, MODEL_VARIABLE};
pub use exchange::{
    EXPORTED_TEXT_LIMIT_BYTES, ExchangeError, ExportFormat, ExportOrder, Exported, IMPORT_FILES_LIMIT, ImportOrder,
    ImportOutcome, Imported, Origin, dollars, export_session, export_to_file, import_sessions,
};
pub use guests::{GuestsError, Progress};
pub use hardening::harden_process;
pub use hint::failure_hint;
pub use index::{
    Holder, INDEX_LIMIT_BYTES, INDEX_LINE_LIMIT_BYTES, Index, IndexError, Listing, Provenance, SessionSummary,
};
pub use input::{FILE_LIMIT_BYTES, FILES_LIMIT, IMAGE_LIMIT_BYTES, InputError, TEXT_LIMIT_BYTES, read_input};
pub use library::{
    DaySpent, Deleted, LibraryError, ReadSession, SearchError, SearchHit, SearchOrder, Searched, ShortIds, Spent,
    TRASH_KEPT, delete_session, find_session, fork_session, label_session, name_session, search_sessions, spent_by_day,
    trust_session,
};
pub use log::LOG_LIMIT_BYTES;
pub use model::ModelError;
pub use notice::NOTICE_LIMIT_CHARS;
pub use pith::{Done, Forked, Pith, RunError};
pub use pith_core::{
    Answer, AskedQuestion, CannotAsk, CanonicalCall, Choice, CompactEnd, Decision, Delivery, Diagnostic, EntryKind,
    FailureKind, Field, FieldKind, FieldOption, ForkPoint, Inbox, LeftBranch, ModelCard, ModelFailure, ModelUsage,
    MoveEnd, Moved, Outlined, Person, PluginQuestion, RetryLaw, RunEnd, Session, SessionError, SetAside, Totals,
    UserCall, UserCallEnd, UserCallError, Wanted,
};
pub use pith_os::{SandboxBackend, SandboxError, SandboxInForce, SandboxLevel, SandboxMachine};
pub use pith_plugin::{FunctionUse, LoadError, PluginUse, WallTimes};
pub use places::{NoHome, Places, WorkspaceError};
pub use plugins::{PluginsError, ShippedPlugin};
pub use prompt::{CONTEXT_FILE_LIMIT_BYTES, CONTEXT_LIMIT_BYTES, TOOLS_SECTION_LIMIT_BYTES};
pub use rescue::NotSaved;
pub use sessions::{ChoiceError, SessionChoice};
pub use settings::{KeyClass, SETTING_KEYS, SETTINGS_LIMIT_BYTES, SettingKey, Settings, SettingsError};
pub use start::{Options, StartError, start};
pub use store::{FOREIGN_FILE_LIMIT_BYTES, LoadError as SessionFileError, SESSION_FILE_LIMIT_BYTES, SessionSync};
pub use sweep::{SPOOL_KEPT, SPOOLS_REMOVED_A_START};
pub use usage::{PLUGINS_REMEMBERED, RecordedUse, USE_FILE_FOLDED_BYTES, USE_FILE_LIMIT_BYTES, recorded_plugin_use};
