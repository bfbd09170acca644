//! The hostile suite: guests, components, files and sessions that try to get out, to stay for ever, to use everything up, or to lie. In each
//! case a second session of the same process works on, and how long its calls take is measured, judged and printed.
//!
//! A test binary of its own, and its cases run one after the other, so that what the bystander sees is the case and nothing else:
//! `cargo test --release -p pith-tests --test hostile -- --nocapture`.

mod answers;
mod arena;
mod cache;
mod components;
mod disk;
mod floods;
mod guards;
mod readers;
mod scan;
mod time;
