//! One integration suite, one binary: modules by topic. Everything is driven from outside, through the binary, or through the library
//! as an embedder uses it.

mod arrows;
mod children;
mod compaction;
mod demo;
mod door;
mod exchange;
mod faces;
mod hostile;
mod library;
mod outcomes;
mod own_tool;
mod pastes;
mod pi_events;
mod plain;
mod plain_sessions;
mod plugins;
mod sandbox;
mod session_commands;
mod sessions;
mod signals;
mod stats;
mod summaries;
mod tables;
mod terminal;
mod tools;
mod wires;

/// A file that nobody lists is a test that never runs.
#[test]
fn every_file_of_the_suite_is_listed() {
    let folder = pith_tests::repository().join("tests/suite");
    let listed = std::fs::read_to_string(folder.join("main.rs")).expect("this file");
    for entry in std::fs::read_dir(folder).expect("this folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else { continue };
        assert!(listed.contains(&format!("\nmod {module};\n")), "suite/{name} is not listed in suite/main.rs");
    }
}
