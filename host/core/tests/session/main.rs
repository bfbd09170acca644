//! A session on real lines: what is appended is read back, what is damaged loses only itself.
#![allow(clippy::unwrap_used, missing_docs)]

mod house;

mod damage;
mod foreign;
mod machine;
mod old;
mod scale;
mod tree;
mod unsaved;
mod view;
