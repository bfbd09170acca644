//! Real peers: servers and programs that others wrote, installed from their registries into `target/peers`. See README.md.

mod agents;
mod aimock;
mod install;
mod llama;
mod peer;
mod pi;
mod pi_sessions;
