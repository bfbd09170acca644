//! Reading and writing whole files. The same code runs in the guest, on granted folders, and in tests, on real ones.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use pith_sdk::Error;
use pith_sdk::paths::{EIO, GuestPath};

use crate::place;

/// The largest file that `edit` works on: it holds the file about ten times.
pub const MAX_EDIT_BYTES: u64 = 10 * 1024 * 1024;

/// Why a file was not opened.
#[derive(Debug)]
pub enum Unopened {
    /// It is a folder.
    Folder,
    /// A FIFO, a socket or a device, which the host does not open either.
    Special,
    /// The system's answer.
    Error(io::Error),
}

impl Unopened {
    /// What to tell the model.
    pub fn explain(&self, path: &GuestPath, deed: &str) -> Error {
        match self {
            Self::Folder => {
                Error::invalid(format!("`{path}` is a folder. List it with ls, or name a file in it to {deed}."))
            }
            Self::Special => Error::invalid(format!("`{path}` is not a regular file; name another one to {deed}.")),
            Self::Error(error) => place::explain(path, deed, error),
        }
    }
}

/// Opens a regular file and says how long it is; anything else is left unopened.
pub fn open(path: &GuestPath) -> Result<(File, u64), Unopened> {
    let metadata = std::fs::metadata(path).map_err(Unopened::Error)?;
    if metadata.is_dir() {
        return Err(Unopened::Folder);
    }
    if !metadata.is_file() {
        return Err(Unopened::Special);
    }
    Ok((File::open(path).map_err(Unopened::Error)?, metadata.len()))
}

/// The first bytes of a file, at most `max_bytes`, and whether there is more.
pub fn read_up_to(path: impl AsRef<Path>, max_bytes: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    let has_more = bytes.len() as u64 > max_bytes;
    if has_more {
        bytes.truncate(usize::try_from(max_bytes).unwrap_or(usize::MAX));
    }
    Ok((bytes, has_more))
}

/// What became of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// There was none.
    New,
    /// It has new content.
    Over,
    /// It had this content and was not touched.
    Same,
}

/// Writes in place: mode, owner and links of an existing file stay. Folders that are missing are made. A full disk loses nothing.
pub fn write(path: &Path, content: &[u8]) -> io::Result<Written> {
    if let Some(folder) = path.parent()
        && !folder.is_dir()
    {
        std::fs::create_dir_all(folder)?;
    }
    let is_new = !path.exists();
    let mut file = OpenOptions::new().read(!is_new).write(true).create(true).truncate(false).open(path);
    if matches!(&file, Err(error) if error.kind() == io::ErrorKind::PermissionDenied) {
        // A file that may be written and not read: there is nothing to put back then.
        file = OpenOptions::new().write(true).open(path);
    }
    let mut file = file?;
    if !is_new {
        let before = read_back(&mut file);
        if before.as_deref() == Some(content) {
            return Ok(Written::Same);
        }
        let length = file.metadata()?.len();
        fill(&mut file, content, length, before.as_deref())?;
        return Ok(Written::Over);
    }
    file.write_all(content).map_err(|error| {
        // Half a file that nobody asked for; a link to it stays, as it was there before.
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        let is_gone = !is_link && std::fs::remove_file(path).is_ok();
        let kept = if is_gone { "nothing was kept" } else { "it holds only a part" };
        io::Error::other(format!("{}; {kept}", reason(&error)))
    })?;
    Ok(Written::New)
}

/// What the file holds, to be put back where writing fails; none where it is too long to be held.
fn read_back(file: &mut File) -> Option<Vec<u8>> {
    let length = file.metadata().ok()?.len();
    if length > MAX_EDIT_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    Read::take(&mut *file, MAX_EDIT_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_EDIT_BYTES).then_some(bytes)
}

/// What became of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It was written.
    Done,
    /// The file is not what it was when it was read; nothing was written.
    Moved,
}

/// Writes in place, but only where the file still holds `expected`.
pub fn replace(path: &Path, expected: &[u8], content: &[u8]) -> io::Result<Replaced> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut now = Vec::with_capacity(expected.len());
    Read::take(&mut file, expected.len() as u64 + 1).read_to_end(&mut now)?;
    if now != expected {
        return Ok(Replaced::Moved);
    }
    fill(&mut file, content, expected.len() as u64, Some(expected))?;
    Ok(Replaced::Done)
}

/// Makes `content` what a file holds that is `length` bytes long. What lies beyond is written first: that needs room on the disk, and where
/// there is none the length is set back and nothing is lost. What is written over has its room, mostly; where that fails all the same,
/// `before` is put back.
fn fill(file: &mut File, content: &[u8], length: u64, before: Option<&[u8]>) -> io::Result<()> {
    let (over, beyond) = content.split_at(usize::try_from(length).unwrap_or(usize::MAX).min(content.len()));
    let left = |error: io::Error, is_as_it_was: bool| {
        let state = if is_as_it_was { "it was left as it was" } else { "it may hold only a part now: read it again" };
        io::Error::other(format!("{}; {state}", reason(&error)))
    };
    if !beyond.is_empty()
        && let Err(error) = put(file, length, beyond)
    {
        let is_as_it_was = file.set_len(length).is_ok();
        return Err(left(error, is_as_it_was));
    }
    let wanted = content.len() as u64;
    let done = put(file, 0, over).and_then(|()| if wanted < length { file.set_len(wanted) } else { Ok(()) });
    done.map_err(|error| {
        let mut put_back = |before| put(file, 0, before).and_then(|()| file.set_len(length));
        left(error, before.is_some_and(|before| put_back(before).is_ok()))
    })
}

fn put(file: &mut File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Why writing failed, as far as it can be told.
fn reason(error: &io::Error) -> String {
    use io::ErrorKind as Io;
    match error.kind() {
        Io::StorageFull | Io::QuotaExceeded => "the disk is full".to_owned(),
        Io::WriteZero => "the disk may be full".to_owned(),
        _ if error.raw_os_error() == Some(EIO) => "the disk may be full or read-only".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_in_place_and_makes_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c.txt");
        assert_eq!(write(&path, b"long content").unwrap(), Written::New);
        let link = folder.path().join("hard");
        std::fs::hard_link(&path, &link).unwrap();
        assert_eq!(write(&path, b"short").unwrap(), Written::Over);
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        File::open(&path).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(write(&path, b"short").unwrap(), Written::Same);
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
        assert_eq!(std::fs::read(&link).unwrap(), b"short");
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_stays() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.sh");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(replace(&path, b"new", b"newer").unwrap(), Replaced::Done);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    }

    #[test]
    fn a_file_that_moved_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for now in ["other", "expected and more", "expecte", ""] {
            std::fs::write(&path, now).unwrap();
            assert_eq!(replace(&path, b"expected", b"mine").unwrap(), Replaced::Moved);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), now);
        }
    }

    #[test]
    fn a_file_has_what_was_written_whatever_its_length_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for old in ["", "a", "abc", "abcdef"] {
            for new in ["", "x", "xyz", "xyzuvw"] {
                std::fs::write(&path, old).unwrap();
                assert_eq!(write(&path, new.as_bytes()).unwrap() == Written::Same, old == new);
                assert_eq!(std::fs::read_to_string(&path).unwrap(), new, "over {old:?}");
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told() {
        let error = write(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("the disk is full; it "), "{error}");
    }

    /// The folder in which this test is run again, on a small disk of its own.
    #[cfg(target_os = "linux")]
    const SMALL_DISK: &str = "PITH_TEST_SMALL_DISK";

    /// Runs itself again in a namespace where it may mount a disk of 24 MiB.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_loses_nothing() {
        if let Some(folder) = std::env::var_os(SMALL_DISK) {
            return on_a_small_disk(Path::new(&folder));
        }
        let folder = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        let test = "disk::tests::a_full_disk_loses_nothing";
        let script = "mount -t tmpfs -o size=24m small \"$1\" && exec \"$0\" --exact \"$2\" --nocapture";
        let run = std::process::Command::new("unshare")
            .args(["-Urm", "sh", "-c", script])
            .args([this.as_os_str(), folder.path().as_os_str(), test.as_ref()])
            .env(SMALL_DISK, folder.path())
            .output()
            .unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success() && said.contains("1 passed"), "{said}");
    }

    #[cfg(target_os = "linux")]
    fn on_a_small_disk(folder: &Path) {
        const MIB: usize = 1024 * 1024;
        let path = folder.join("f");
        for (old, new, more) in [(12 * MIB, 30 * MIB, 16 * MIB), (MIB, 30 * MIB, 8 * MIB)] {
            let old = vec![b'o'; old];
            std::fs::write(&path, &old).unwrap();
            let error = write(&path, &vec![b'n'; new]).unwrap_err().to_string();
            assert_eq!(error, "the disk is full; it was left as it was");
            assert!(std::fs::read(&path).unwrap() == old, "{} bytes", old.len());
            assert_eq!(replace(&path, &old, &vec![b'n'; new]).unwrap_err().to_string(), error);
            assert!(std::fs::read(&path).unwrap() == old, "{} bytes", old.len());
            // What fits is written, though there is no room for both.
            let new = vec![b'n'; more];
            assert_eq!(write(&path, &new).unwrap(), Written::Over);
            assert!(std::fs::read(&path).unwrap() == new);
        }
        let error = write(&folder.join("new"), &vec![b'n'; 30 * MIB]).unwrap_err().to_string();
        assert_eq!(error, "the disk is full; nothing was kept");
        assert!(!folder.join("new").exists());
    }

    #[test]
    fn reading_stops_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_up_to(&path, 5).unwrap(), (b"12345".to_vec(), false));
        assert_eq!(read_up_to(&path, 4).unwrap(), (b"1234".to_vec(), true));
    }
}
