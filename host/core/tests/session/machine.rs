//! Any history at all: appends, moves, edits, labels, compactions, forks, stores that fail, kills in the middle of a write, reloads. What the
//! session says of its tree is held against a list of what was committed.

use crate::house::{Bytes, Fault, assert_paired, awake_ids, calls, fresh, path_ids, result, says, shape, used, user};
use pith_core::{ForkOrder, ForkPoint, Session, StoreFault, Totals, Trust};
use pith_protocol::{
    BashExecution, Compaction, Content, Custom, CustomMessageEntry, Entry, EntryBody, EntryId, Message, ModelChange,
    SessionId, SystemMessage, UsageEntry,
};
use proptest::prelude::*;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Body>),
    /// To the entry of this number among all, or before the first.
    Move(Option<u16>),
    AppendAt(Option<u16>, Body),
    Edit(u16, Option<bool>),
    Label(u16, Option<String>),
    Name(Option<String>),
    /// Keeps from the entry of this number on the path, or none, or from one that is not there.
    Compact(Kept),
    Fail(u8),
    Heal,
    Reload,
    /// The process is killed when so many bytes of the last write were written.
    Kill(u16),
    Fork(u8, u16),
}

#[derive(Clone, Debug)]
enum Kept {
    From(u16),
    None,
    Lost,
}

#[derive(Clone, Debug)]
enum Body {
    User(String),
    Says(String),
    Calls(Vec<u8>),
    Result(u8),
    Bash(String),
    Custom,
    Words,
    System(u8),
    Usage,
    Model,
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        4 => "\\PC{0,12}".prop_map(Body::User),
        3 => "\\PC{1,12}".prop_map(Body::Says),
        4 => prop::collection::vec(0u8..6, 1..4).prop_map(Body::Calls),
        6 => (0u8..6).prop_map(Body::Result),
        1 => "[a-z ]{1,9}".prop_map(Body::Bash),
        1 => Just(Body::Custom),
        1 => Just(Body::Words),
        1 => any::<u8>().prop_map(Body::System),
        1 => Just(Body::Usage),
        1 => Just(Body::Model),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => prop::collection::vec(body(), 1..4).prop_map(Step::Append),
        3 => prop::option::weighted(0.9, any::<u16>()).prop_map(Step::Move),
        2 => (prop::option::weighted(0.9, any::<u16>()), body()).prop_map(|(at, body)| Step::AppendAt(at, body)),
        3 => (any::<u16>(), any::<Option<bool>>()).prop_map(|(at, with)| Step::Edit(at, with)),
        2 => (any::<u16>(), any::<Option<String>>()).prop_map(|(at, label)| Step::Label(at, label)),
        1 => any::<Option<String>>().prop_map(Step::Name),
        3 => prop_oneof![4 => any::<u16>().prop_map(Kept::From), 1 => Just(Kept::None), 1 => Just(Kept::Lost)]
            .prop_map(Step::Compact),
        2 => any::<u8>().prop_map(Step::Fail),
        2 => Just(Step::Heal),
        3 => Just(Step::Reload),
        1 => any::<u16>().prop_map(Step::Kill),
        2 => (any::<u8>(), any::<u16>()).prop_map(|(how, at)| Step::Fork(how, at)),
    ];
    prop::collection::vec(step, 1..22)
}

impl Body {
    fn entry(&self) -> EntryBody {
        match self {
            Self::User(text) => user(text).into(),
            Self::Says(text) => says(text).into(),
            Self::Calls(ids) => {
                let ids: Vec<String> = ids.iter().map(|id| format!("c{id}")).collect();
                calls(&ids.iter().map(String::as_str).collect::<Vec<_>>()).into()
            }
            Self::Result(id) => result(&format!("c{id}")).into(),
            Self::Bash(command) => {
                Message::BashExecution(BashExecution { command: command.clone(), ..BashExecution::default() }).into()
            }
            Self::Custom => EntryBody::Custom(Custom {
                custom_type: "p/state".to_owned(),
                data: json!({"n": 1}),
                publisher: Some("us".to_owned()),
            }),
            Self::Words => EntryBody::CustomMessage(CustomMessageEntry {
                custom_type: "p/words".to_owned(),
                content: vec![Content::text("from a plugin")],
                display: true,
                details: None,
                publisher: None,
            }),
            Self::System(n) => {
                let sections = serde_json::Map::from_iter([(format!("s{}", n % 3), json!(format!("text {n}")))]);
                Message::System(SystemMessage { sections, ..SystemMessage::default() }).into()
            }
            Self::Usage => EntryBody::Usage(UsageEntry {
                kind: "plugin".to_owned(),
                provider: "p".to_owned(),
                model: "other".to_owned(),
                usage: used(3, 0.0),
                note: None,
            }),
            Self::Model => {
                EntryBody::ModelChange(ModelChange { provider: "p".to_owned(), model_id: "next".to_owned() })
            }
        }
    }
}

/// What was committed, in order.
#[derive(Default)]
struct Committed {
    entries: Vec<Arc<Entry>>,
    labels: BTreeMap<String, String>,
}

impl Committed {
    fn add(&mut self, entries: Vec<Arc<Entry>>) {
        self.entries.extend(entries);
    }

    fn at(&self, n: u16) -> Option<EntryId> {
        let n = usize::from(n).checked_rem(self.entries.len())?;
        Some(self.entries[n].id.clone())
    }

    fn get(&self, id: &EntryId) -> &Arc<Entry> {
        self.entries.iter().find(|entry| entry.id == *id).unwrap()
    }

    /// Ids root -> last.
    fn path(&self) -> Vec<String> {
        let mut path = Vec::new();
        let mut next = self.entries.last().map(|entry| entry.id.clone());
        while let Some(id) = next {
            path.push(id.to_string());
            next = self.get(&id).parent_id.clone();
        }
        path.reverse();
        path
    }
}

/// What a reload must not change.
#[derive(Debug, PartialEq)]
struct Seen {
    path: Vec<String>,
    awake: Vec<String>,
    shape: String,
    sources: Vec<Option<EntryId>>,
    prompt: String,
    totals: Totals,
    labels: Vec<(EntryId, String)>,
    name: Option<String>,
}

fn seen(session: &Session) -> Seen {
    let projected = session.project();
    assert_eq!(projected.messages, session.project().messages, "projecting twice is the same as once");
    assert_eq!(projected.messages.len(), projected.sources.len());
    Seen {
        path: path_ids(session),
        awake: awake_ids(session),
        shape: shape(session),
        sources: projected.sources,
        prompt: format!("{:?}", session.prompt_state()),
        totals: session.totals(),
        labels: session.labels(),
        name: session.name(),
    }
}

struct Machine {
    session: Session,
    bytes: Bytes,
    committed: Committed,
    /// The file's length before the last write that happened.
    before: usize,
}

impl Machine {
    fn new() -> Self {
        let (session, bytes) = fresh();
        Self { session, bytes, committed: Committed::default(), before: 0 }
    }

    /// An operation: what it committed is the file's tail, or waits for it.
    fn note(&mut self, length: usize, added: Result<Vec<Arc<Entry>>, pith_core::SessionError>) {
        match added {
            Ok(added) => self.committed.add(added),
            Err(error) => assert!(matches!(error, pith_core::SessionError::Store(_)), "{error}"),
        }
        if self.bytes.all().len() > length {
            self.before = length;
        }
    }

    /// What moved the leaf or left a mark returns no entry: it is read from the outline.
    fn note_hidden(&mut self, length: usize) {
        let known = self.committed.entries.len();
        let fresh: Vec<_> = self.session.outline().into_iter().skip(known).collect();
        let added = fresh.iter().map(|one| self.session.entry(&one.id).unwrap().unwrap()).collect();
        self.note(length, Ok(added));
    }

    fn step(&mut self, step: &Step) {
        let length = self.bytes.all().len();
        match step {
            Step::Append(bodies) => {
                let added = self.session.append_all(bodies.iter().map(Body::entry).collect());
                self.note(length, added);
            }
            Step::Move(to) => {
                let to = to.and_then(|to| self.committed.at(to));
                let path = path_ids(&self.session);
                match self.session.move_leaf(to.as_ref()) {
                    Ok(moved) => {
                        let kept = moved
                            .common
                            .as_ref()
                            .map_or(0, |common| path.iter().position(|id| id == common.as_str()).unwrap() + 1);
                        let left: Vec<&str> = moved.left.iter().map(EntryId::as_str).collect();
                        assert_eq!(left, path[kept..]);
                    }
                    Err(error) => assert!(matches!(error, pith_core::SessionError::Store(_)), "{error}"),
                }
                self.note_hidden(length);
            }
            Step::AppendAt(at, body) => {
                let at = at.and_then(|at| self.committed.at(at));
                let added = self.session.append_at(at.as_ref(), vec![body.entry()]);
                self.note(length, added);
            }
            Step::Edit(at, with) => {
                let Some(target) = self.committed.at(*at) else { return };
                let replacement = with.map(|with| if with { vec![Content::text("edited")] } else { Vec::new() });
                match self.session.edit(&target, replacement) {
                    Err(pith_core::SessionError::NotEditable { .. }) => {}
                    added => self.note(length, added.map(|entry| vec![entry])),
                }
            }
            Step::Label(at, label) => {
                let Some(target) = self.committed.at(*at) else { return };
                let added = self.session.set_label(&target, label.clone());
                if let Ok(entry) = &added {
                    match &entry.body {
                        EntryBody::Label(label) => match &label.label {
                            Some(text) => self.committed.labels.insert(target.to_string(), text.clone()),
                            None => self.committed.labels.remove(target.as_str()),
                        },
                        other => panic!("{other:?}"),
                    };
                }
                self.note(length, added.map(|entry| vec![entry]));
            }
            Step::Name(name) => {
                let added = self.session.set_name(name.clone());
                self.note(length, added.map(|entry| vec![entry]));
            }
            Step::Compact(kept) => self.compact(length, kept),
            Step::Fail(n) => self.bytes.fail(match n % 4 {
                0 => Fault::Partial,
                1 => Fault::Refuses(StoreFault::Changed),
                2 => Fault::Refuses(StoreFault::TooLarge),
                _ => Fault::Refuses(StoreFault::Unwritable),
            }),
            Step::Heal => self.bytes.fail(Fault::None),
            Step::Reload => self.reload(),
            Step::Kill(at) => self.kill(*at),
            Step::Fork(how, at) => self.fork(*how, *at),
        }
    }

    fn compact(&mut self, length: usize, kept: &Kept) {
        let path = path_ids(&self.session);
        let id = self.session.reserve_id();
        let first_kept_entry_id = match kept {
            Kept::From(at) if !path.is_empty() => EntryId::from(path[usize::from(*at) % path.len()].as_str()),
            Kept::Lost => EntryId::from("nowhere"),
            _ => id.clone(),
        };
        let made = Compaction {
            summary: "in short".to_owned(),
            first_kept_entry_id,
            tokens_before: 1,
            system_message: self.session.prompt_state().checkpoint(1),
            details: None,
            usage: Some(used(7, 0.5)),
            from_hook: None,
        };
        let told = self.session.prompt_state();
        let added = self.session.append_reserved(vec![(id, EntryBody::Compaction(made))], |_| Ok::<(), ()>(()));
        if added.is_ok() {
            assert_eq!(self.session.prompt_state(), told, "a checkpoint says what was told before it");
        }
        self.note(length, added.map(Result::unwrap));
    }

    fn reload(&mut self) {
        self.bytes.fail(Fault::None);
        let before = seen(&self.session);
        self.session.save().unwrap();
        assert_eq!(self.session.unsaved(), None);
        if self.committed.entries.is_empty() {
            return;
        }
        let (again, diagnostics) = self.bytes.resume();
        let bad = |one: &&pith_core::Diagnostic| !matches!(one, pith_core::Diagnostic::LostCut { .. });
        let torn = diagnostics.iter().filter(bad).all(|one| matches!(one, pith_core::Diagnostic::Damaged { .. }));
        assert!(torn, "{diagnostics:?}");
        assert_eq!(seen(&again), before);
        self.session = again;
    }

    /// The last write was torn, and the process with it: what stands whole in the file is what is left.
    fn kill(&mut self, at: u16) {
        let bytes = self.bytes.all();
        let header = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let first = self.before.max(header);
        if bytes.len() <= first {
            return;
        }
        let cut = first + usize::from(at) % (bytes.len() - first);
        self.bytes.0.lock().unwrap().truncate(cut);
        self.bytes.fail(Fault::None);
        let (again, _) = self.bytes.resume();
        let left = again.outline().len();
        let whole =
            self.bytes.all().split(|byte| *byte == b'\n').skip(1).filter(|line| Entry::read(line).is_ok()).count();
        assert_eq!(left, whole);
        assert!(left <= self.committed.entries.len());
        self.committed.entries.truncate(left);
        self.committed.labels = again.labels().into_iter().map(|(id, label)| (id.to_string(), label)).collect();
        self.before = cut;
        self.session = again;
    }

    fn fork(&mut self, how: u8, at: u16) {
        let at = match (how % 4, self.committed.at(at)) {
            (0, _) | (_, None) => ForkPoint::Leaf,
            (1, Some(id)) => ForkPoint::At(id),
            (2, Some(id)) => ForkPoint::Before(id),
            _ => ForkPoint::Whole,
        };
        let order =
            ForkOrder { at: at.clone(), id: SessionId::from("fork"), cwd: "/f".to_owned(), parent_session: None };
        let target = Bytes::default();
        let count = self.session.fork(&order, &target).unwrap();
        let (forked, diagnostics) = target.resume();
        assert!(diagnostics.iter().all(|one| matches!(one, pith_core::Diagnostic::LostCut { .. })), "{diagnostics:?}");
        let outline = forked.outline();
        assert_eq!(outline.len() as u64, count);
        // Each line that was copied is the very line, and each entry has the label that it has here.
        let ours = outline.iter().filter(|one| self.session.entry(&one.id).unwrap().is_some());
        let mut copied = Vec::new();
        for one in ours {
            assert_eq!(forked.raw_line(&one.id).unwrap(), self.session.raw_line(&one.id).unwrap());
            assert_eq!(forked.label(&one.id), self.session.label(&one.id), "{}", one.id);
            copied.push(one.id.to_string());
        }
        let here: Vec<String> = match at {
            ForkPoint::Whole => self.committed.entries.iter().map(|entry| entry.id.to_string()).collect(),
            ForkPoint::Leaf => path_ids(&self.session),
            ForkPoint::At(id) => self.path_of(&id),
            ForkPoint::Before(id) => {
                let mut path = self.path_of(&id);
                path.pop();
                path
            }
        };
        assert_eq!(copied, here);
        assert_paired(&forked);
        if matches!(order.at, ForkPoint::Leaf | ForkPoint::Whole) {
            assert_eq!(shape(&forked), shape(&self.session));
        }
    }

    fn path_of(&self, id: &EntryId) -> Vec<String> {
        let mut path = Vec::new();
        let mut next = Some(id.clone());
        while let Some(id) = next {
            next = self.committed.get(&id).parent_id.clone();
            path.push(id.to_string());
        }
        path.reverse();
        path
    }

    fn check(&self) {
        let outline = self.session.outline();
        let ids: Vec<&EntryId> = outline.iter().map(|one| &one.id).collect();
        let committed: Vec<&EntryId> = self.committed.entries.iter().map(|entry| &entry.id).collect();
        assert_eq!(ids, committed, "nothing committed is lost, and nothing else is there");
        assert_eq!(path_ids(&self.session), self.committed.path());
        assert_paired(&self.session);
        let labels: BTreeMap<String, String> =
            self.session.labels().into_iter().map(|(id, label)| (id.to_string(), label)).collect();
        assert_eq!(labels, self.committed.labels);
        for entry in &self.committed.entries {
            assert_eq!(self.session.entry(&entry.id).unwrap().as_ref(), Some(entry));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_kept(steps in steps()) {
        let mut machine = Machine::new();
        for step in &steps {
            machine.step(step);
            machine.check();
        }
        machine.step(&Step::Reload);
        machine.check();
        // What others have in hands is not ours any more, and shows the model the same.
        if !machine.committed.entries.is_empty() {
            let (foreign, _) = machine.bytes.resume_as(Trust::Foreign);
            prop_assert_eq!(shape(&foreign), shape(&machine.session));
            prop_assert_eq!(foreign.with_own_path(|path| path.count()), 0);
        }
    }
}
