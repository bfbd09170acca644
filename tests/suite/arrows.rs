//! The house's drawing, and the habits that keep it true: who may depend on whom, and what stands in one place only.

use pith_tests::repository;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// Who may depend on whom, in building and in running. `tests` may depend on anything.
const ARROWS: &[(&str, &[&str])] = &[
    ("pith", &["pith-runtime", "pith-bundle", "pith-protocol"]),
    ("pith-runtime", &["pith-llm", "pith-plugin", "pith-os", "pith-core", "pith-law", "pith-protocol"]),
    ("pith-plugin", &["pith-bindings", "pith-law", "pith-os", "pith-core", "pith-protocol"]),
    ("pith-llm", &["pith-core", "pith-protocol"]),
    ("pith-core", &["pith-law", "pith-protocol"]),
    ("pith-protocol", &[]),
    ("pith-law", &[]),
    ("pith-os", &[]),
    ("pith-bindings", &[]),
    ("pith-bundle", &[]),
    ("pith-sdk", &["pith-sdk-macros"]),
    ("pith-sdk-macros", &[]),
    ("pith-plugin-compact", &["pith-sdk"]),
    ("pith-plugin-files", &["pith-sdk"]),
    ("pith-plugin-search", &["pith-sdk"]),
    ("pith-plugin-shell", &["pith-sdk"]),
    ("pith-plugin-protect", &["pith-sdk"]),
];

#[test]
fn no_crate_depends_on_one_that_the_drawing_does_not_give_it() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(repository())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > ARROWS.len(), "only {} packages", packages.len());
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        if name == "pith-tests" {
            continue;
        }
        let Some(may) = allowed.get(name) else { panic!("{name} is not in the drawing: give it a row in arrows.rs") };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let ours = dependency["path"].is_string();
            let to = dependency["name"].as_str().expect("a name");
            // What only tests use is no arrow of the house.
            if ours && dependency["kind"] != "dev" {
                assert!(may.contains(&to), "{name} depends on {to}, which the drawing does not have");
            }
        }
    }
}

/// `cargo run` and `cargo test` are the README's two commands: they share what they compile only while every dependency has the same features
/// in both. One that differs below wasmtime compiles it twice.
#[test]
fn running_and_testing_compile_the_same_dependencies() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = |what: &[&str]| {
        let output = Command::new(&cargo)
            .args(["tree", "--offline", "--locked", "--prefix", "none", "--no-dedupe", "-f", "{p} [{f}]"])
            .args(what)
            .current_dir(repository())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    let testing = tree(&["--workspace", "-e", "normal,build,dev"]);
    for package in ["pith", "pith-tests"] {
        let running = tree(&["-p", package, "-e", "normal,build"]);
        let other: Vec<&String> = running.difference(&testing).collect();
        assert!(
            running.len() > 100 && other.is_empty(),
            "{package}: give these their features in host/bindings: {other:?}"
        );
    }
}

/// A habit: these words stand in no source of these folders, except in the files named.
struct Habit {
    why: &'static str,
    folders: &'static [&'static str],
    words: &'static [&'static str],
    except: &'static [&'static str],
}

const HABITS: &[Habit] = &[
    Habit {
        why: "core does no IO and reads no clock, environment or path",
        folders: &["core"],
        words: &[
            "reqwest",
            "std::fs",
            "fs::",
            "std::env",
            "env::var",
            "std::net",
            "tokio::net",
            "std::process",
            "tokio::process",
            "SystemTime",
            "Instant::now",
            "std::io::stdin",
            "tokio::time",
        ],
        except: &[],
    },
    Habit {
        why: "protocol and law are words and pure functions",
        folders: &["protocol", "law"],
        words: &[
            "std::fs",
            "fs::read",
            "std::env",
            "env::var",
            "std::net",
            "std::process",
            "tokio",
            "async ",
            "SystemTime",
            "Instant::now",
        ],
        except: &[],
    },
    Habit {
        why: "one function spawns",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "cli", "bindings", "os"],
        words: &[
            "process::Command::new(",
            " Command::new(",
            "(Command::new(",
            "CommandWrap::",
            "posix_spawn",
            "rustix::process::fork",
        ],
        // A child; what looks whether a sandbox can be made.
        except: &["os/src/child.rs", "os/src/process.rs", "os/src/place.rs", "os/src/sandbox/bubblewrap.rs"],
    },
    Habit {
        why: "one function dials",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "cli", "bindings", "os"],
        words: &["Client::builder(", "ClientBuilder", "Client::new()", "reqwest::get(", "TcpStream::connect"],
        except: &["llm/src/http.rs"],
    },
    Habit {
        why: "one path dispatches: nothing but the dispatch calls Tools::run",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "cli", "os"],
        words: &["tools.run(", "Tools::run("],
        except: &["core/src/dispatch.rs"],
    },
    Habit {
        why: "only the door writes to a terminal",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "bindings", "os"],
        words: &["println!", "eprintln!", "print!(", "eprint!(", "io::stdout()", "io::stderr()"],
        except: &[],
    },
    Habit {
        why: "unsafe only where precompiled code is loaded",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "cli", "os"],
        words: &["unsafe {", "unsafe fn", "unsafe impl"],
        except: &["plugin/src/cache.rs"],
    },
    Habit {
        why: "the host knows no tool and no plugin by name",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "bindings", "os"],
        words: &["\"bash\"", "\"grep\"", "\"edit\"", "\"protect\"", "\"shell\"", "\"search\""],
        except: &[],
    },
    Habit {
        why: "vendors are named in llm, and where their variables are read",
        folders: &["core", "law", "plugin", "bindings", "os"],
        words: &["anthropic", "openai", "Anthropic", "OpenAI"],
        except: &[],
    },
    Habit {
        why: "one function opens foreign paths; the files named open Pith's own",
        folders: &["core", "law", "llm", "plugin", "protocol", "runtime", "cli"],
        words: OPENING,
        except: OWN_FILES,
    },
    Habit {
        why: "within os it is open.rs that opens; the files named look at the system itself",
        folders: &["os"],
        words: OPENING,
        except: SYSTEM_FILES,
    },
];

/// Whatever opens, lists or copies by a path.
const OPENING: &[&str] = &[
    "File::open(",
    "File::create(",
    "File::options(",
    "OpenOptions::new(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::read_link(",
    "fs::read_dir(",
    "fs::copy(",
    "tokio::fs",
    "rustix::fs::open",
    "rustix::fs::statat",
    ".read_dir()",
    ".read_link()",
];

/// The one opener, and what in `os` looks at no foreign path.
const SYSTEM_FILES: &[&str] = &[
    "os/src/open.rs",
    // The host's own folder, without links, and what it makes beneath that.
    "os/src/spool.rs",
    // Asks what a name is that it has from a folder which it holds.
    "os/src/scan/walk.rs",
    // The mounts of this machine, the places that a sandbox is made of.
    "os/src/sandbox/ground.rs",
    "os/src/sandbox/landlock.rs",
    "os/src/sandbox/sockets.rs",
];

/// Who opens a path that is Pith's own, and which.
const OWN_FILES: &[&str] = &[
    // Compiled code, in the cache.
    "plugin/src/cache.rs",
    // A call too long to be shown, made anew in the reserved data folder.
    "cli/src/plain/question.rs",
    // The sample project that the demo has just written.
    "cli/src/demo/project.rs",
    // Session files, in the data folder.
    "runtime/src/store/open.rs",
    "runtime/src/store/open/nameless.rs",
    // A session's copy where it could not be saved: made anew in the temporary folder.
    "runtime/src/rescue.rs",
    // The index in the data folder, the session files beside it, the kernel's list of locks.
    "runtime/src/index/ledger.rs",
    "runtime/src/index/listing.rs",
    "runtime/src/index/holder.rs",
    // The folders of grants, which the user named: held from load on.
    "plugin/src/folders.rs",
    // The spool folders in the state folder, to lock them.
    "runtime/src/spool.rs",
    // The folder of temporary ones, to remove its own from.
    "runtime/src/remove.rs",
    // The log.
    "runtime/src/log.rs",
    // What plugins used, in the state folder.
    "runtime/src/usage.rs",
    // The list of its own sessions.
    "runtime/src/sessions.rs",
    // The list of a folder of transcripts that the user named; what is in them is read through the one opener.
    "runtime/src/exchange/import.rs",
    // The lists of its own sessions and of those that were thrown away.
    "runtime/src/library/find.rs",
    "runtime/src/library/trash.rs",
];

#[test]
fn what_stands_in_one_place_stands_nowhere_else() {
    let mut wrong = Vec::new();
    for habit in HABITS {
        let mut seen = 0;
        for folder in habit.folders {
            for (place, text) in sources(folder) {
                seen += 1;
                if habit.except.contains(&place.as_str()) {
                    continue;
                }
                for (number, line) in text.lines().enumerate() {
                    let code = line.trim_start();
                    if let Some(word) = habit.words.iter().find(|word| !code.starts_with("//") && has_word(line, word))
                    {
                        wrong.push(format!("host/{place}:{}: {word:?}: {}", number + 1, habit.why));
                    }
                }
            }
        }
        assert!(seen > 0, "no source was read for: {}", habit.why);
        for place in habit.except {
            assert!(repository().join("host").join(place).is_file(), "host/{place} is excepted and is not there");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the line has the word, and not as the end of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let begins = word.starts_with(is_name);
    line.match_indices(word).any(|(at, _)| !begins || !line[..at].ends_with(is_name))
}

/// A crate's sources without their tests: place below `host/`, text.
fn sources(name: &str) -> Vec<(String, String)> {
    let host = repository().join("host");
    let mut files = Vec::new();
    walk(&host.join(name).join("src"), &mut files);
    files.sort();
    files
        .into_iter()
        .filter(|path| {
            !path.file_stem().is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with("_tests"))
        })
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            (path.strip_prefix(&host).expect("beneath").to_string_lossy().into_owned(), code)
        })
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
