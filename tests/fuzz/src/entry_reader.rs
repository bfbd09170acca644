//! Session files of any bytes: read, gone on with, projected, forked, read again. Nothing panics, and what was read is what is read again.
//!
//! The first byte says how: whose the file is, and which line is taken for one that is too long to be read.
#![no_main]

use futures::future::BoxFuture;
use libfuzzer_sys::fuzz_target;
use pith_core::{
    Clock, ForkOrder, ForkPoint, LoadedTree, ReadError, Session, Store, StoreError, StoreFault, TreeReader, Trust,
};
use pith_protocol::{Content, Entry, EntryBody, Message, SessionId, UserMessage};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// A file.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Line by line, as a store feeds them. `skipped` is one that it would not.
    fn load(&self, skipped: usize) -> Result<LoadedTree, ReadError> {
        let mut reader = TreeReader::new();
        for (at, line) in self.lock().split_inclusive(|byte| *byte == b'\n').enumerate() {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let ended = text.len() < line.len();
            if at == skipped {
                reader.skip_line(text.len() as u64, ended);
            } else {
                reader.push_line(text, ended)?;
            }
        }
        reader.finish()
    }
}

impl Store for Bytes {
    fn append(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.lock().extend_from_slice(lines);
        Ok(())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let lost = || StoreError {
            kind: StoreFault::Unreadable,
            file: "fuzz".to_owned(),
            action: "read",
            source: std::io::ErrorKind::UnexpectedEof.into(),
        };
        self.lock().get(start..start.saturating_add(length)).map(<[u8]>::to_vec).ok_or_else(lost)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// No time; ids that count.
struct Still(AtomicU32);

impl Clock for Still {
    fn now_millis(&self) -> i64 {
        0
    }

    fn monotonic_millis(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn random_u32(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

fn clock() -> Arc<Still> {
    Arc::new(Still(AtomicU32::new(0)))
}

/// The entries root -> leaf, without their parents' ids: a copy mends those of entries that lost theirs.
fn path_of(session: &Session) -> Vec<Entry> {
    let mut path = Vec::new();
    session
        .walk_path(&mut |entry| path.push(Entry { parent_id: None, ..entry.clone() }))
        .expect("what was read can be read again");
    path
}

fn without_marks(mut path: Vec<Entry>) -> Vec<Entry> {
    path.retain(|entry| match &entry.body {
        EntryBody::Custom(custom) => !matches!(custom.custom_type.as_str(), "pith/foreign" | "pith/trusted"),
        _ => true,
    });
    path
}

/// Each call has one result behind it, in the order asked; projecting twice is the same as once.
fn check_view(session: &Session) -> Vec<Arc<Message>> {
    let view = session.project();
    assert_eq!(view.messages, session.project().messages);
    assert_eq!(view.messages.len(), view.sources.len());
    let mut open: Vec<&str> = Vec::new();
    for message in &view.messages {
        match message.as_ref() {
            Message::ToolResult(result) => assert_eq!(open.remove(0), result.tool_call_id),
            other => {
                assert!(open.is_empty());
                if let Message::Assistant(reply) = other {
                    open = reply.tool_calls().map(|call| call.id.as_str()).collect();
                }
            }
        }
    }
    assert!(open.is_empty());
    view.messages
}

fuzz_target!(|input: &[u8]| {
    let Some((how, file)) = input.split_first() else { return };
    let trust = [Trust::Own, Trust::Foreign, Trust::Trusted][usize::from(how % 3)];
    let source = Bytes(Arc::new(Mutex::new(file.to_vec())));
    let Ok(loaded) = source.load(usize::from(how / 3)) else { return };
    let (totals, outline) = (loaded.totals(), loaded.outline());
    for (at, one) in outline.iter().enumerate() {
        assert!(one.parent.is_none_or(|parent| parent < at));
    }
    let words = loaded.labels();

    // It goes on where it is, or in a new file.
    let (session, target) = if loaded.is_current() && how % 2 == 0 {
        let (session, _) = Session::resume(loaded, Path::new("/w"), Box::new(source.clone()), clock(), trust)
            .expect("it can be resumed");
        (session, source.clone())
    } else {
        let target = Bytes::default();
        let (name, id) = (String::from("old"), SessionId::from("new"));
        let made = Session::adopt(loaded, &source, name, id, Path::new("/w"), Box::new(target.clone()), clock(), trust);
        assert_eq!(*source.lock(), file, "the old file stays");
        (made.expect("it can be adopted").0, target)
    };
    assert_eq!((session.totals(), session.labels()), (totals, words));
    let before = path_of(&session);
    let view = check_view(&session);
    let _ = (session.prompt_state(), session.set_aside());
    if trust == Trust::Foreign {
        assert_eq!(session.with_own_path(|path| path.count()), 0);
    }

    // On with it, and read again: all is there, and ours behind it.
    let ours = Message::User(UserMessage { content: vec![Content::text("on")], timestamp: 0 });
    let added = session.append(ours).expect("it can be written");
    // A line of ours is never too long.
    let lines = file.split_inclusive(|byte| *byte == b'\n').count();
    let is_same = target.lock().starts_with(file) && usize::from(how / 3) < lines;
    let skipped = if is_same { usize::from(how / 3) } else { usize::MAX };
    let again = target.load(skipped).expect("it can be read again");
    let (again, _) =
        Session::resume(again, Path::new("/w"), Box::new(target.clone()), clock(), Trust::Own).expect("it goes on");
    let after = path_of(&again);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.last().map(|last| &last.id), Some(&added.id));
    assert_eq!((again.totals(), again.labels(), again.name()), (session.totals(), session.labels(), session.name()));
    let seen = check_view(&again);
    assert_eq!(seen[..view.len()], view);
    if trust == Trust::Foreign {
        // The mark, and the message.
        assert!(again.with_own_path(|path| path.count()) <= 2);
    }

    // A fork has the same path, but for marks: one of its own may stand before an entry that lost its parent.
    let fork = Bytes::default();
    let at = if how % 5 == 0 { ForkPoint::Whole } else { ForkPoint::Leaf };
    let order = ForkOrder { at, id: SessionId::from("fork"), cwd: String::new(), parent_session: None };
    again.fork(&order, &fork).expect("it can be forked");
    let forked = fork.load(usize::MAX).expect("a fork can be read");
    let (forked, _) =
        Session::resume(forked, Path::new("/w"), Box::new(fork), clock(), Trust::Own).expect("a fork goes on");
    let (there, here) = (without_marks(path_of(&forked)), without_marks(after));
    assert_eq!(there[..here.len()], here);
    assert_eq!(check_view(&forked), seen);
});
