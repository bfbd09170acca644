//! What sessions outlive: kills at any time and at every write, partial writes, full and read-only disks, other programs and other processes.
//! Everything is the real program on real files.

mod boundaries;
mod kills;
mod others;
mod room;
mod torn;
mod two_processes;
mod whole;
