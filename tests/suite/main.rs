//! One integration suite, one binary: modules by topic.

fn main() {}
