//! What the model sees: compaction, and moves in the tree, with the real loop over scripted ports.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod compaction;
mod moves;
mod world;
