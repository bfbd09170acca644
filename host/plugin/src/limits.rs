//! Every limit of a guest, as a named constant; what the contract promises of each is in `wit/README.md`.

use std::time::Duration;

/// A component's file, in bytes.
pub const COMPONENT_BYTES: usize = 64 << 20;
/// All memories of an instance together, in bytes, where a plugin has no limit of its own.
pub const MEMORY_BYTES: usize = 64 << 20;
/// Elements of all tables of an instance together.
pub const TABLE_ELEMENTS: usize = 100_000;
/// Core instances within one instance.
pub const CORE_INSTANCES: usize = 32;
/// Host resources alive in one instance.
pub const RESOURCES: usize = 1_000;
/// Files and folders that one plugin's calls hold open together; at most a quarter of what the process may open.
pub const OPEN_FILES: usize = 4_000;
/// Bytes from the guest in one host call or result; met before the host allocates.
pub const HOST_CALL_BYTES: usize = 16 << 20;
/// Bytes from the guest through our own imports in one exported call.
pub const EXPORTED_CALL_BYTES: usize = 64 << 20;
/// Calls of our own imports in one exported call.
pub const HOST_CALLS: u32 = 10_000;
/// A gate's or filter's time, guest and host work together.
pub const GUARD_DEADLINE: Duration = Duration::from_secs(1);
/// A compactor's time, without what it waits for a model.
pub const COMPACTOR_DEADLINE: Duration = Duration::from_secs(120);
/// A summary that a compactor gives, in bytes.
pub const SUMMARY_BYTES: usize = 256 << 10;
/// How long one request of a plugin's to a model may take, tries and waits included; the call's own deadline stands still meanwhile.
pub const MODEL_WAIT: Duration = Duration::from_secs(600);
/// A plugin's request to a model, in bytes of words and pictures.
pub const MODEL_REQUEST_BYTES: usize = 8 << 20;
/// Requests to a model in one exported call.
pub const MODEL_REQUESTS: u32 = 64;
/// `specs`' time.
pub const SPECS_DEADLINE: Duration = Duration::from_secs(5);
/// A tool call's time, where a plugin has no limit of its own.
pub const TOOL_DEADLINE: Duration = Duration::from_secs(120);
/// The longest limit of its own that a plugin may have.
pub const TOOL_DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a call that was ended from outside may hold its caller.
pub const END_GRACE: Duration = Duration::from_millis(50);
/// How much longer a call that has a file open for writing may go on when it is aborted: writes are in place, and one that is cut short tears its file.
pub const WRITE_GRACE: Duration = pith_core::WRITE_GRACE;
/// How often running guests are interrupted.
pub const TICK: Duration = Duration::from_millis(5);
/// Live instances of one plugin; further calls wait in a fair queue.
pub const PLUGIN_INSTANCES: usize = 16;
/// Live instances that one session's calls have; further calls wait in a fair queue.
pub const SESSION_INSTANCES: usize = 64;
/// Live instances of the process; further calls wait in a fair queue.
pub const PROCESS_INSTANCES: usize = 256;
/// Slots of the pool; past them the on-demand allocator serves.
pub const POOL_SLOTS: u32 = 64;
/// Threads that file work of one plugin may leave behind, stuck in the file system.
pub const THREADS_LEFT_BEHIND: usize = 1_000;
/// Faults in a row that disable what a plugin offers, and shut what it guards.
pub const FAULTS_IN_A_ROW: u8 = 3;
/// A plugin's standard output and error of one call, kept for faults, in bytes each.
pub const STDIO_BYTES: usize = 64 << 10;
/// Lines for the log in one exported call, in bytes.
pub const LOG_BYTES: usize = 64 << 10;
/// Partial output that is shown, in bytes.
pub const PROGRESS_BYTES: usize = 64 << 10;
/// The shortest time between two updates of partial output.
pub const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// One state entry, in bytes of JSON.
pub const STATE_BYTES: usize = 256 << 10;
/// State entries of one plugin on a session's path.
pub const STATE_ENTRIES: usize = 1_000;
/// All state entries of one plugin on a session's path, in bytes.
pub const STATE_SESSION_BYTES: usize = 16 << 20;
/// Tools of one plugin.
pub const TOOLS: usize = 64;
/// A tool's description, in bytes.
pub const DESCRIPTION_BYTES: usize = 4 << 10;
/// A tool's schema, in bytes.
pub const SCHEMA_BYTES: usize = 32 << 10;
/// Nesting of a tool's schema.
pub const SCHEMA_DEPTH: usize = 16;
/// A tool's guidelines.
pub const GUIDELINES: usize = 5;
/// One guideline, and a label, in bytes.
pub const GUIDELINE_BYTES: usize = 200;
/// Child processes of one plugin alive at once.
pub const CHILDREN: usize = 8;
/// A process's output that is kept in memory, in bytes of each stream; longer output goes to the spool as a whole.
pub const PROCESS_KEEP_BYTES: usize = 256 << 10;
/// What a spawned process may say before all of it goes to the spool, in bytes: little, so that whatever a plugin shortens to some thousand
/// lines is there as a whole.
pub const SPAWN_KEEP_BYTES: usize = 2_000;
/// Random bytes that a guest may ask for at once.
pub const RANDOM_BYTES: u64 = 1 << 20;

/// Questions of one plugin open at once.
pub const QUESTIONS_OPEN: usize = 1;
/// Questions of one plugin within any minute.
pub const QUESTIONS_A_MINUTE: usize = 6;
/// How long a question waits for the person, where it has no limit of its own; then it counts as dismissed.
pub const QUESTION_WAIT: Duration = Duration::from_secs(600);
/// A question's words, all of them together, in bytes.
pub const QUESTION_BYTES: usize = 64 << 10;
/// Choices of a question, fields of a form, options of a field.
pub const QUESTION_PARTS: usize = 100;

/// What one plugin may use, where that is not the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All memories of an instance together, in bytes.
    pub memory_bytes: usize,
    /// A tool call's time; at most [`TOOL_DEADLINE_MAX`].
    pub tool_deadline: Duration,
    /// How long its questions wait for the person; at most [`QUESTION_WAIT`].
    pub question_wait: Duration,
    /// A compactor's time; at most [`COMPACTOR_DEADLINE`].
    pub compactor_deadline: Duration,
    /// How long one request to a model may take; at most [`MODEL_WAIT`].
    pub model_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES,
            tool_deadline: TOOL_DEADLINE,
            question_wait: QUESTION_WAIT,
            compactor_deadline: COMPACTOR_DEADLINE,
            model_wait: MODEL_WAIT,
        }
    }
}

/// Output that one `child.next` gathers, in bytes: a flood costs a host call for each so much. What was read last, at most
/// [`pith_os::CHUNK_BYTES`], comes whole.
pub const CHUNK_BYTES: usize = 1 << 20;
