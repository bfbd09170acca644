//! The gate with real components: each limit reached by a guest, each refusal of a load, each import called.

mod bounds;
mod cached;
mod dialog;
mod faults;
mod files;
mod guards;
mod guests;
mod house;
mod imports;
mod limits;
mod loading;
mod queue;
mod summaries;
mod wasi;
