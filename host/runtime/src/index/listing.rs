//! The list of sessions: the index where it is fresh, the files themselves where it is not; then the index is mended.

use super::{Claim, Head, Holder, Index, Provenance, Record, Stamp, holder, ledger::Known};
use crate::{
    Progress,
    store::{SESSION_FILE_LIMIT_BYTES, SourceFile},
};
use pith_core::Totals;
use serde::Serialize;
use std::{
    io,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Threads that read files which the index does not know, at most.
const READERS: usize = 4;
/// From when on, and how often, people are told how far it is.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Files that cannot be read which are named one by one.
const UNREADABLE_SHOWN: usize = 20;

/// All sessions of the sessions folder.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The newest first, by their last activity.
    pub sessions: Vec<SessionSummary>,
    /// What people should know, a sentence each. Foreign text.
    pub notices: Vec<String>,
}

/// What one session comes to. Its texts are foreign: not for a terminal as they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Its id; empty where the header is damaged.
    pub id: String,
    /// Its file.
    pub file: PathBuf,
    /// The working folder that it says.
    pub cwd: String,
    /// What it was made from: a file or an id, as its header says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was made, as its header says.
    pub created: String,
    /// When a message of the user or a reply was added last; the file's own time where it has none.
    pub last_activity: String,
    /// The file's length.
    pub bytes: u64,
    /// What it comes to, all branches.
    pub totals: Totals,
    /// Whose it is.
    pub provenance: Provenance,
    /// Who writes it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<Holder>,
}

/// A file of the sessions folder.
struct Met {
    path: PathBuf,
    /// In the index; none where it cannot be in it.
    name: Option<String>,
    stamp: Stamp,
}

impl Index {
    /// All sessions. Files that the index does not know as they are now are read, several at once, and noted in it.
    ///
    /// # Errors
    /// The sessions folder cannot be listed.
    pub fn list(&self, progress: Option<&Progress>) -> io::Result<Listing> {
        let mut known = self.ledger().read();
        let files = self.files()?;
        let mut listing = Listing::default();
        let mut unknown = Vec::new();
        for met in files {
            let record = met.name.as_ref().and_then(|name| known.records.remove(name));
            match record {
                Some(record) if record.stamp == met.stamp && record.head.is_some() && record.totals.is_some() => {
                    listing.sessions.push(summary(met, record));
                }
                record => unknown.push((met, record)),
            }
        }
        self.read_unknown(unknown, known, progress, &mut listing);
        let newest = |one: &SessionSummary| (one.last_activity.clone(), one.file.clone());
        listing.sessions.sort_by_cached_key(|one| std::cmp::Reverse(newest(one)));
        Ok(listing)
    }

    /// The session files, in the folders of the sessions folder and beside them.
    fn files(&self) -> io::Result<Vec<Met>> {
        let mut found = Vec::new();
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let Ok(inner) = std::fs::read_dir(entry.path()) else { continue };
            for entry in inner.flatten() {
                let is_session = entry.file_name().as_encoded_bytes().ends_with(b".jsonl");
                if !is_session || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    continue;
                }
                // Deleted meanwhile.
                let Ok(met) = entry.metadata() else { continue };
                // Its writer was killed before the first line, or is about to write it.
                if met.len() == 0 {
                    continue;
                }
                let path = entry.path();
                found.push(Met { name: self.name(&path).map(str::to_owned), stamp: Stamp::of(&met), path });
            }
        }
        Ok(found)
    }

    fn read_unknown(
        &self,
        unknown: Vec<(Met, Option<Record>)>,
        gone: Known,
        progress: Option<&Progress>,
        listing: &mut Listing,
    ) {
        let read = Mutex::new(Vec::with_capacity(unknown.len()));
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        let told = Mutex::new(began);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(READERS).min(unknown.len());
        let read_some = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((met, _)) = unknown.get(at) else { return };
                let loaded = SourceFile::open_within(&met.path, SESSION_FILE_LIMIT_BYTES)
                    .map(|(file, loaded)| (Head::of(loaded.header()), loaded.totals(), file.sum()));
                // As it was while it was read; else the next listing reads it again.
                let is_same = std::fs::symlink_metadata(&met.path).is_ok_and(|now| Stamp::of(&now) == met.stamp);
                lock(&read).push((at, loaded, is_same));
                if let Some(progress) = progress {
                    let mut told = lock(&told);
                    if told.elapsed() >= TOLD_AFTER {
                        *told = Instant::now();
                        progress(&format!(
                            "reading sessions that the index does not know: {} of {}",
                            at + 1,
                            unknown.len()
                        ));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(read_some);
            }
            read_some();
        });
        let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
        read.sort_by_key(|(at, ..)| *at);
        let mut unknown: Vec<Option<(Met, Option<Record>)>> = unknown.into_iter().map(Some).collect();
        let mut news: Vec<Record> = gone.records.keys().map(|name| Record::gone(name)).collect();
        let mut unreadable = 0usize;
        for (at, loaded, is_same) in read {
            let Some((met, before)) = unknown.get_mut(at).and_then(Option::take) else { continue };
            let (head, totals, sum) = match loaded {
                Ok(read) => read,
                Err(error) => {
                    unreadable = unreadable.saturating_add(1);
                    if unreadable <= UNREADABLE_SHOWN {
                        listing.notices.push(error.to_string());
                    }
                    continue;
                }
            };
            let provenance = before.as_ref().map(|before| before.provenance(met.stamp, Some((&head, sum))));
            let provenance = provenance.unwrap_or(Provenance::Foreign);
            let claim = match provenance {
                Provenance::Own => Claim::Own,
                Provenance::Trusted => Claim::Trusted,
                Provenance::Foreign => Claim::Seen,
            };
            // Whose writer lives is that one's to note; one that was killed notes nothing any more.
            let writing = before.and_then(|before| before.writing);
            let writing = writing.filter(|writing| holder::of(&met.path, Some(writing.clone())).is_some());
            let file = met.name.clone().unwrap_or_default();
            let record = Record {
                file,
                stamp: met.stamp,
                sum: Some(sum),
                claim,
                writing,
                head: Some(head),
                totals: Some(totals),
                gone: false,
            };
            if is_same && record.writing.is_none() && met.name.is_some() {
                news.push(record.clone());
            }
            let mut summary = summary(met, record);
            summary.provenance = provenance;
            listing.sessions.push(summary);
        }
        if let Some(more) = unreadable.checked_sub(UNREADABLE_SHOWN).filter(|more| *more > 0) {
            listing.notices.push(format!("and {more} more files that cannot be read as sessions"));
        }
        if !news.is_empty()
            && let Err(error) = self.ledger().append_after(&news, gone.length)
        {
            listing.notices.push(format!(
                "the index of sessions could not be written, so the next listing takes as long: {error}"
            ));
        }
    }
}

fn summary(met: Met, record: Record) -> SessionSummary {
    let provenance = record.provenance(met.stamp, None);
    let Record { writing, head, totals, .. } = record;
    let (head, totals) = (head.unwrap_or_default(), totals.unwrap_or_default());
    // Only of these the lock is looked at.
    let in_use = writing.and_then(|writing| holder::of(&met.path, Some(writing)));
    let last_activity = match &totals.last_activity {
        Some(last) => last.clone(),
        None => pith_protocol::iso_from_millis(met.stamp.modified / 1_000_000),
    };
    SessionSummary {
        id: head.id,
        file: met.path,
        cwd: head.cwd,
        parent: head.parent,
        created: head.created,
        last_activity,
        bytes: met.stamp.bytes,
        totals,
        provenance,
        in_use,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;

    fn session(id: &str, text: &str) -> String {
        let header = serde_json::json!({ "type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w", "parentSession": "p" });
        let entry = serde_json::json!({ "type": "message", "id": "a1", "parentId": null, "timestamp": "2026-01-02T00:00:00.000Z",
            "message": { "role": "user", "content": text, "timestamp": 1 } });
        format!("{header}\n{entry}\n")
    }

    fn home() -> (tempfile::TempDir, Index, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::at(&Places::beneath(dir.path()));
        let folder = index.folder().join("w");
        std::fs::create_dir_all(&folder).unwrap();
        (dir, index, folder)
    }

    #[test]
    fn files_are_read_once_and_then_known() {
        let (_dir, index, folder) = home();
        for n in 0..20 {
            std::fs::write(folder.join(format!("{n:02}.jsonl")), session(&format!("id-{n:02}"), "hello")).unwrap();
        }
        std::fs::write(folder.join("no.jsonl"), "no session").unwrap();
        std::fs::write(folder.join("no.txt"), "").unwrap();
        std::fs::write(folder.join("empty.jsonl"), "").unwrap();
        let first = index.list(None).unwrap();
        assert_eq!((first.sessions.len(), first.notices.len()), (20, 1), "{:?}", first.notices);
        let one = &first.sessions[0];
        assert_eq!((one.id.as_str(), one.cwd.as_str(), one.parent.as_deref()), ("id-19", "/w", Some("p")));
        assert_eq!(
            (one.created.as_str(), one.last_activity.as_str()),
            ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z")
        );
        assert_eq!((one.totals.users, one.totals.first_user_text.as_deref()), (1, Some("hello")));
        assert_eq!((one.provenance, &one.in_use), (Provenance::Foreign, &None));
        // From the index now: what cannot be read any more is still known.
        let noted = std::fs::metadata(folder.with_file_name("index.jsonl")).unwrap().len();
        assert_eq!(index.list(None).unwrap().sessions, first.sessions);
        assert_eq!(std::fs::metadata(folder.with_file_name("index.jsonl")).unwrap().len(), noted);
        // Changed, new, trusted and gone.
        std::fs::write(folder.join("03.jsonl"), session("id-03", "other words")).unwrap();
        std::fs::write(folder.join("50.jsonl"), session("id-50", "new")).unwrap();
        index.trust(&folder.join("07.jsonl")).unwrap();
        std::fs::remove_file(folder.join("09.jsonl")).unwrap();
        let second = index.list(None).unwrap();
        let of = |id: &str| second.sessions.iter().find(|one| one.id == id);
        assert_eq!(second.sessions.len(), 20);
        assert_eq!(of("id-03").unwrap().totals.first_user_text.as_deref(), Some("other words"));
        assert_eq!(of("id-07").unwrap().provenance, Provenance::Trusted);
        assert!(of("id-50").is_some() && of("id-09").is_none());
        assert_eq!(index.record(&folder.join("09.jsonl")), None);
        // Without the index all is found again, but nothing is known to be ours.
        std::fs::remove_file(folder.with_file_name("index.jsonl")).unwrap();
        let third = index.list(None).unwrap();
        assert!(third.sessions.len() == 20 && third.sessions.iter().all(|one| one.provenance == Provenance::Foreign));
    }

    #[test]
    fn what_a_killed_writer_left_is_ours_and_read_once() {
        let (_dir, index, folder) = home();
        let path = folder.join("a.jsonl");
        std::fs::write(&path, session("a", "x")).unwrap();
        let head = index.list(None).unwrap().sessions.remove(0);
        let head = Head { id: head.id, cwd: head.cwd, created: head.created, parent: head.parent };
        let killed = Record {
            file: "w/a.jsonl".to_owned(),
            stamp: Stamp { bytes: 10, modified: 1 },
            claim: Claim::Own,
            writing: Some(Holder { pid: 1, ..Holder::default() }),
            head: Some(head),
            ..Record::default()
        };
        index.note(&killed).unwrap();
        for _ in 0..2 {
            let one = index.list(None).unwrap().sessions.remove(0);
            assert_eq!((one.provenance, one.in_use), (Provenance::Own, None));
            let record = index.record(&path).unwrap();
            assert_eq!((record.claim, record.writing.is_none(), record.totals.is_some()), (Claim::Own, true, true));
        }
        // One that lives is left alone.
        index.note(&killed).unwrap();
        let held = std::fs::File::open(&path).unwrap();
        held.lock().unwrap();
        let one = index.list(None).unwrap().sessions.remove(0);
        assert!(one.in_use.is_some() && one.provenance == Provenance::Own);
        assert_eq!(index.record(&path).unwrap(), killed);
    }

    #[test]
    fn what_lies_elsewhere_is_not_trusted_by_the_index() {
        let (dir, index, folder) = home();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, session("a", "x")).unwrap();
        assert!(matches!(index.trust(&path), Err(super::super::IndexError::Elsewhere { .. })));
        assert!(matches!(index.trust(&folder.join("none")), Err(super::super::IndexError::NoFile { .. })));
    }

    /// Ten thousand sessions from a fresh index. The figure is the benchmark's; here only the order of magnitude.
    #[test]
    fn ten_thousand_sessions_are_listed_from_the_index() {
        let (_dir, index, folder) = home();
        for n in 0..10_000 {
            std::fs::write(folder.join(format!("{n:05}.jsonl")), session(&format!("id-{n:05}"), &"words ".repeat(30)))
                .unwrap();
        }
        assert_eq!(index.list(None).unwrap().sessions.len(), 10_000);
        let began = Instant::now();
        let listing = index.list(None).unwrap();
        let took = began.elapsed();
        assert_eq!((listing.sessions.len(), listing.notices.len()), (10_000, 0));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
