//! Where things are: the binary, the cases, the repository.

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder that cargo builds into, found from where this program lies: `target/release/deps/suite-...` or `target/release/NAME`.
pub fn target_folder() -> PathBuf {
    profile_folder().parent().map_or_else(|| PathBuf::from("target"), Path::to_path_buf)
}

fn profile_folder() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows where it lies");
    let folder = own.parent().expect("a program lies in a folder");
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    folder.to_path_buf()
}

/// The binary under test: the one that was built beside this program, or the one that the variable `PITH` names.
///
/// # Panics
/// Where there is none, with the command that builds it.
pub fn pith_binary() -> PathBuf {
    let named = std::env::var_os("PITH").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = named.unwrap_or_else(|| profile_folder().join("pith"));
    assert!(
        path.is_file(),
        "there is no {}: run `cargo test --workspace --release` (or `cargo build --release -p pith` before this package alone)",
        path.display()
    );
    path
}

/// The recorded cases.
pub fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// One case's path, such as `bugs/03-truncated-args-finish-tool-calls/stream.sse`.
///
/// # Panics
/// Where there is no such file.
pub fn case(place: &str) -> PathBuf {
    let path = cases().join(place);
    assert!(path.is_file(), "there is no case {}", path.display());
    path
}

/// One case's text.
pub fn case_text(place: &str) -> String {
    std::fs::read_to_string(case(place)).expect("cases are text")
}
