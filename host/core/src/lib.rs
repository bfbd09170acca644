//! Thought: the loop, one session's tree, tool dispatch, context. Functions over ports; no IO, no clock, no environment.
//!
//! Read `run` first: it is the loop, whole. `dispatch` is the one path of every tool call, `projection` what the model sees of a
//! session, `session` and `tree` how a session is kept, `ports` what all of them need from the world.

mod asker;
mod batch;
mod budget;
mod canonical;
mod canonical_form;
mod coerce;
mod compaction;
mod cut;
mod dialog;
mod dispatch;
mod kind;
mod line;
mod mailbox;
mod migrate;
mod moves;
mod outbox;
mod ports;
mod projection;
mod prompt_state;
mod reply;
mod run;
mod schema;
mod scope;
mod session;
mod shrink;
mod skim;
mod summary;
mod tokens;
mod totals;
mod touched;
mod tree;
mod trim;
mod user_call;
mod view;

pub use asker::{AskError, Asker, Meter, Spent};
pub use budget::{Budgets, CompactionLaw, ModelCompaction};
pub use canonical::{NotExact, parse_strict};
pub use canonical_form::canonical_json;
pub use compaction::CompactEnd;
pub use dialog::{Answer, CannotAsk, Choice, Field, FieldKind, FieldOption, PluginQuestion, Wanted};
pub use dispatch::{
    CANCEL_GRACE, CanonicalCall, Dispatched, Dispatcher, Prepared, RESULT_TEXT_LIMIT_BYTES, WRITE_GRACE,
};
pub use kind::EntryKind;
pub use line::{LINE_LIMIT_BYTES, LineFault};
pub use mailbox::{Delivery, Mailbox, MailboxFull, QUEUE_MESSAGES, Said};
pub use moves::{LeftBranch, MoveEnd};
pub use outbox::{FACE_QUEUE_EVENTS, Inbox, Outbox};
pub use ports::{
    AskedQuestion, CallOutcome, Clock, Decision, FailureKind, Fault, Filtered, Hooks, Judgement, Model, ModelCard,
    ModelEvent, ModelFailure, ModelRequest, OfferedTool, Person, Spool, Stop, Store, StoreError, StoreFault,
    Summarised, SummaryJob, SummaryPart, SummaryReason, Tools, Verdict,
};
pub use projection::{Projection, PromptState};
pub use run::{Agent, RetryLaw, RunEnd};
pub use schema::{Schema, SchemaError};
pub use scope::{CallScope, Progress, RunFacts};
pub use session::{ForkOrder, ForkPoint, Moved, Session, SessionError, SetAside, Trust, UNSAVED_LIMIT_BYTES, Unsaved};
pub use tokens::{BYTES_PER_TOKEN, PICTURE_TOKENS};
pub use totals::{ModelUsage, TITLE_CHARS, Totals};
pub use touched::{TOUCHED_FILES, TOUCHED_PATH_BYTES};
pub use tree::{DIAGNOSTICS_KEPT, Diagnostic, ENTRIES_LIMIT, LoadedTree, Outlined, ReadError, TreeReader};
pub use user_call::{UserCall, UserCallEnd, UserCallError};
