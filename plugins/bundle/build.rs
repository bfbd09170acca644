//! Builds the shipped plugins for wasm32-wasip2 and writes the list that `lib.rs` includes.
//!
//! `PITH_BUNDLE=DIR` takes ready components (`files.wasm`, `search.wasm`, `shell.wasm`, `protect.wasm`, `compact.wasm`) instead. It is for
//! packagers who build guests apart, and for rust-analyzer, which runs build scripts and would build the guests once more
//! into a target folder of its own: set it in the editor's `rust-analyzer.cargo.extraEnv` to
//! `target/guests/wasm32-wasip2/guest` (absolute; names as cargo gives them, `pith_plugin_files.wasm`, are found too).

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "guest";
const PLUGINS: [&str; 5] = ["files", "search", "shell", "protect", "compact"];
/// What the outer cargo, clippy or rustup set for themselves and the nested build must not see.
const SCRUBBED: [&str; 12] = [
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "CARGO_MAKEFLAGS",
    "MAKEFLAGS",
    "__CARGO_DEFAULT_LIB_METADATA",
];
/// The same, by the beginning of the name.
const SCRUBBED_PREFIXES: [&str; 6] =
    ["CLIPPY_", "CARGO_PROFILE_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_PKG_", "CARGO_BUILD_RUST"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[allow(clippy::print_stderr, reason = "a build script's errors go there")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let root = here.join("../..");
    tell("rerun-if-env-changed=PITH_BUNDLE");
    let components = match env::var_os("PITH_BUNDLE").filter(|folder| !folder.is_empty()) {
        Some(folder) => ready(Path::new(&folder))?,
        None => {
            for source in
                ["sdk-guest/src", "sdk-guest/macros", "sdk-guest/Cargo.toml", "wit", "Cargo.toml", "Cargo.lock"]
            {
                watch(&root.join(source));
            }
            for plugin in PLUGINS {
                watch(&root.join("plugins").join(plugin));
            }
            watch(&here.join("build.rs"));
            built(&root, &target_folder(&out)?)?
        }
    };
    let mut list = String::new();
    for (plugin, component) in PLUGINS.iter().zip(components) {
        // A copy of our own: the next build of the guests must not change what this crate was compiled with.
        let copy = out.join(format!("{plugin}.wasm"));
        fs::copy(&component, &copy).map_err(|error| format!("{}: {error}", component.display()))?;
        list.push_str(&format!("const {}: &[u8] = include_bytes!({:?});\n", plugin.to_uppercase(), copy));
    }
    fs::write(out.join("components.rs"), list)?;
    Ok(())
}

/// Speaks to the cargo that runs this.
fn tell(line: &str) {
    #[allow(clippy::print_stdout, reason = "cargo reads a build script's standard output")]
    {
        println!("cargo:{line}");
    }
}

fn watch(path: &Path) {
    tell(&format!("rerun-if-changed={}", path.display()));
}

/// `<target>` from `<target>/<profile>/build/<crate>-<hash>/out`, where a target triple may stand before the profile.
fn target_folder(out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = out.ancestors().nth(4).ok_or("OUT_DIR has an unknown shape")?;
    let triple = env::var("TARGET")?;
    let target = if target.ends_with(&triple) { target.parent().unwrap_or(target) } else { target };
    Ok(target.to_path_buf())
}

fn ready(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut components = Vec::new();
    for plugin in PLUGINS {
        let names = [format!("{plugin}.wasm"), format!("pith_plugin_{plugin}.wasm")];
        let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        let found = found.ok_or_else(|| format!("PITH_BUNDLE={}: there is no {}", folder.display(), names[0]))?;
        watch(&found);
        components.push(found);
    }
    Ok(components)
}

fn built(root: &Path, target: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    add_target()?;
    let guests = target.join("guests");
    for plugin in PLUGINS {
        // The crates are plain libraries, so that their code is tested natively from anywhere; named beside `cdylib` in a manifest, that
        // would cost the component its link-time optimization (50 kB each).
        let mut cargo = scrubbed(&env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(root).args(["rustc", "--locked", "--quiet", "--lib", "--crate-type", "cdylib"]);
        cargo.args(["--profile", PROFILE, "--target", TARGET, "-p", &format!("pith-plugin-{plugin}")]);
        cargo.arg("--target-dir").arg(&guests);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", remapped().join("\x1f"));
        let status = cargo.stdin(Stdio::null()).status().map_err(|error| format!("cargo for the guests: {error}"))?;
        if !status.success() {
            return Err(format!("the guest {plugin} did not build ({status}); the errors are above").into());
        }
    }
    let folder = guests.join(TARGET).join(PROFILE);
    Ok(PLUGINS.iter().map(|plugin| folder.join(format!("pith_plugin_{plugin}.wasm"))).collect())
}

/// Flags that keep the builder's folders out of the components, so that their digests do not depend on them.
fn remapped() -> Vec<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let sources = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    let mut flags: Vec<String> = sources
        .into_iter()
        .flatten()
        .filter_map(|registry| Some(format!("--remap-path-prefix={}=/deps", registry.ok()?.path().to_str()?)))
        .collect();
    flags.sort();
    flags
}

/// Has rustup install the target where it is missing. Without rustup the build itself will tell.
fn add_target() -> Result<(), Box<dyn Error>> {
    let sysroot = scrubbed("rustc".as_ref()).args(["--print", "sysroot"]).output();
    let Ok(sysroot) = sysroot.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) else {
        return Ok(());
    };
    if sysroot.is_empty() || Path::new(&sysroot).join("lib/rustlib").join(TARGET).join("lib").is_dir() {
        return Ok(());
    }
    let added = scrubbed("rustup".as_ref()).args(["target", "add", TARGET]).stdout(Stdio::null()).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        _ => {
            Err(format!("the target {TARGET} is missing and could not be added; run: rustup target add {TARGET}")
                .into())
        }
    }
}

fn scrubbed(program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if SCRUBBED.contains(&&*text) || SCRUBBED_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}
