//! Sockets of agents, buses, container engines, terminals and editors that lie where children otherwise work: in the home folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::ground::SandboxGround;
use super::view::View;

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

/// Folders beneath the home folder in which every socket, also one folder deeper, is of an agent, of a connection that is open already (ssh's
/// ControlMaster), or of a program that runs others or types into terminals for whoever asks.
const FOLDERS_IN_HOME: [&str; 7] = [".gnupg", ".ssh", ".emacs.d/server", ".pm2", ".screen", ".tmux", ".byobu"];

/// Known ones elsewhere, outside of `/run` and `/tmp`, which children have their own of.
const ELSEWHERE: [&str; 4] = [
    "/var/run/docker.sock",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/lib/incus/unix.socket",
];

/// Variables that name one, as a path or as an address with it, and that children are not given either: without them programs do not even try.
pub(super) const WITHHELD: [&str; 13] = [
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_AGENT_INFO",
    "TMUX",
    "WEZTERM_UNIX_SOCKET",
    "KITTY_LISTEN_ON",
    "ALACRITTY_SOCKET",
    "NVIM",
    "NVIM_LISTEN_ADDRESS",
    "EMACS_SOCKET_NAME",
    "VSCODE_IPC_HOOK_CLI",
    "I3SOCK",
    "SWAYSOCK",
];

/// Variables that name one or an address on the network, as which children are given them.
const GIVEN: [&str; 3] = ["DBUS_SYSTEM_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST"];

/// Variables that name a folder of such sockets; as those beneath the home folder.
const FOLDER_VARIABLES: [&str; 5] = ["TMUX_TMPDIR", "SCREENDIR", "ZELLIJ_SOCKET_DIR", "GNUPGHOME", "XDG_RUNTIME_DIR"];

/// The most sockets of one folder that are looked for.
const ENTRIES_MAX: usize = 1000;

/// Those that are there now and that a child would see.
pub(super) fn to_cover(ground: &SandboxGround, view: &View<'_>) -> Vec<PathBuf> {
    let variables = WITHHELD.iter().chain(&GIVEN);
    let mut found: Vec<PathBuf> = variables.filter_map(|name| named(name, ground.variable(name)?)).collect();
    found.extend(ELSEWHERE.iter().map(PathBuf::from));
    let mut folders: Vec<PathBuf> =
        FOLDER_VARIABLES.iter().filter_map(|name| ground.variable(name).map(PathBuf::from)).collect();
    if let Some(home) = ground.home() {
        found.extend(IN_HOME.iter().map(|place| home.join(place)));
        folders.extend(FOLDERS_IN_HOME.iter().map(|folder| home.join(folder)));
    }
    for folder in folders.iter().filter(|folder| folder.is_absolute() && !view.hides(folder)) {
        within(folder, true, &mut found);
    }
    let mut real: Vec<PathBuf> = found.iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect();
    real.retain(|path| is_socket(path) && !view.hides(path));
    real.sort();
    real.dedup();
    real
}

/// A folder's sockets, and those one folder deeper.
fn within(folder: &Path, deeper: bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX) {
        match entry.file_type() {
            Ok(kind) if kind.is_socket() => found.push(entry.path()),
            Ok(kind) if kind.is_dir() && deeper => within(&entry.path(), false, found),
            _ => {}
        }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|met| met.file_type().is_socket())
}

/// `/path`, `unix:///path` or `unix:path=/path,guid=...`; of tmux `/path,1,0`, of GnuPG's older agents `/path:1:1`.
fn named(variable: &str, value: &OsStr) -> Option<PathBuf> {
    let bytes = match variable {
        "TMUX" => value.as_bytes().rsplitn(3, |byte| *byte == b',').last()?,
        "GPG_AGENT_INFO" => value.as_bytes().rsplitn(3, |byte| *byte == b':').last()?,
        _ => value.as_bytes(),
    };
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
        let of = |variable: &str, value: &str| named(variable, OsStr::new(value));
        assert_eq!(of("TMUX", "/tmp/tmux-1000/a,b,3092,0"), Some("/tmp/tmux-1000/a,b".into()));
        assert_eq!(of("GPG_AGENT_INFO", "/a/S.gpg-agent:12:1"), Some("/a/S.gpg-agent".into()));
        assert_eq!(of("KITTY_LISTEN_ON", "unix:/tmp/kitty"), Some("/tmp/kitty".into()));
        assert_eq!(of("KITTY_LISTEN_ON", "unix:@kitty"), None);
        let read = |value: &str| of("SSH_AUTH_SOCK", value).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(read("/a/agent.1").as_deref(), Some("/a/agent.1"));
        assert_eq!(read("unix:///a/docker.sock").as_deref(), Some("/a/docker.sock"));
        assert_eq!(read("unix:path=/a/bus,guid=12").as_deref(), Some("/a/bus"));
        assert_eq!(read("unix:path=/a/bus;unix:path=/b").as_deref(), Some("/a/bus"));
        for none in ["unix:abstract=/tmp/dbus-1", "tcp://localhost:2375", "ssh://host", "relative", ""] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
