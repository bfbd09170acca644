//! Harness: what the suite, the peers and the benchmarks stand on. Real parts only: the binary `pith` in a fresh home, an HTTP server
//! that paces real bytes (over TLS where wanted), components assembled from text.

pub mod author;
mod bench;
mod built;
mod bystander;
mod guest;
mod home;
pub mod native;
mod native_search;
mod native_shell;
mod place;
mod pty;
mod run;
mod server;
mod spoken;
mod table;
mod tls;
mod wire;

pub use bench::{Bench, plugin_source, shipped_sources};
pub use built::hostile_component;
pub use bystander::{Bystander, Latencies};
pub use guest::{Behaviour, Guest, Question};
pub use home::Home;
pub use place::{case, case_text, cases, pith_binary, repository, target_folder};
pub use pty::Terminal;
pub use run::{Run, Running};
pub use server::{Answer, Request, Server};
pub use spoken::{path_of, said, text_of, told};
pub use table::{Ground, Row, Seen, Table};
pub use tls::Authority;
pub use wire::{Reply, Wire};
