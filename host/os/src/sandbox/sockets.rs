//! Sockets of agents, buses and container engines that lie where children otherwise work: in the home folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::ground::{Plan, SandboxGround};

/// Known ones beneath the home folder.
const IN_HOME: [&str; 10] = [
    ".docker/run/docker.sock",
    ".docker/desktop/docker.sock",
    ".colima/docker.sock",
    ".colima/default/docker.sock",
    ".rd/docker.sock",
    ".orbstack/run/docker.sock",
    ".lima/default/sock/docker.sock",
    ".1password/agent.sock",
    ".bitwarden-ssh-agent.sock",
    ".config/1Password/ssh/agent.sock",
];

/// Folders beneath the home folder in which every socket is of an agent, or of a program that runs others for whoever asks.
const FOLDERS_IN_HOME: [&str; 4] = [".gnupg", ".ssh/agent", ".emacs.d/server", ".pm2"];

/// Known ones elsewhere, outside of `/run` and `/tmp`, which children have their own of.
const ELSEWHERE: [&str; 4] = [
    "/var/run/docker.sock",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/lib/incus/unix.socket",
];

/// Variables that name one, as a path or as an address with it.
const VARIABLES: [&str; 5] =
    ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST"];

/// The most sockets of one folder that are looked for.
const ENTRIES_MAX: usize = 1000;

/// Those that are there now and that a child would see.
pub(super) fn to_cover(ground: &SandboxGround, plan: &Plan) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = VARIABLES.iter().filter_map(|name| named(ground.variable(name)?)).collect();
    found.extend(ELSEWHERE.iter().map(PathBuf::from));
    if let Some(home) = ground.home() {
        found.extend(IN_HOME.iter().map(|place| home.join(place)));
        for folder in FOLDERS_IN_HOME {
            let entries = std::fs::read_dir(home.join(folder)).into_iter().flatten().flatten().take(ENTRIES_MAX);
            found.extend(
                entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket())).map(|entry| entry.path()),
            );
        }
    }
    let mut real: Vec<PathBuf> = found.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    real.retain(|path| is_socket(path) && !plan.hides(path));
    real.sort();
    real.dedup();
    real
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|met| met.file_type().is_socket())
}

/// `/path`, `unix:///path` or `unix:path=/path,guid=...`.
fn named(value: &OsStr) -> Option<PathBuf> {
    let bytes = value.as_bytes();
    let path = match bytes.strip_prefix(b"unix:") {
        Some(rest) => {
            let rest = rest.strip_prefix(b"path=").or_else(|| rest.strip_prefix(b"//")).unwrap_or(rest);
            rest.split(|byte| matches!(byte, b',' | b';')).next()?
        }
        None => bytes,
    };
    Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sockets_path_is_read_from_any_way_of_saying_it() {
        let read = |value: &str| named(OsStr::new(value)).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(read("/a/agent.1").as_deref(), Some("/a/agent.1"));
        assert_eq!(read("unix:///a/docker.sock").as_deref(), Some("/a/docker.sock"));
        assert_eq!(read("unix:path=/a/bus,guid=12").as_deref(), Some("/a/bus"));
        assert_eq!(read("unix:path=/a/bus;unix:path=/b").as_deref(), Some("/a/bus"));
        for none in ["unix:abstract=/tmp/dbus-1", "tcp://localhost:2375", "ssh://host", "relative", ""] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
