//! Foreign text made harmless before a terminal shows it: the library's, for what it exports needs it too.

pub use pith_runtime::harmless::{Cleaner, exact_json, harmless, harmless_line, is_invisible, unframed};
