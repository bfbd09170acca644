//! What is to be done and what was found, in one list in the order of results: so that all threads work at its front, and work stops when
//! what stands before can no longer change.

use super::Hit;

/// The work and the findings of one query.
///
/// A piece of work that was taken keeps its place; what comes of it (findings, more work) is put there. Findings that stand side by side
/// become one, so what is before the first piece of work is never longer than two entries a thread.
pub(super) struct Agenda<W> {
    entries: Vec<Entry<W>>,
    /// Entries that can be used again.
    free: Vec<usize>,
    taken: usize,
    max_matches: usize,
    max_bytes: usize,
}

struct Entry<W> {
    item: Item<W>,
    before: usize,
    after: usize,
}

enum Item<W> {
    /// The list's both ends.
    Ends,
    Work(W),
    Taken,
    Found(Found),
    Free,
}

/// Hits in their order.
#[derive(Default)]
pub(super) struct Found {
    pub hits: Vec<Hit>,
    /// Those that are no context.
    pub matches: usize,
    /// What they hold in memory, about.
    pub bytes: usize,
}

/// What comes of a piece of work.
pub(super) enum Fruit<W> {
    Work(W),
    Found(Found),
}

/// What there is to do.
pub(super) enum Next<W> {
    /// To be given back with [`Agenda::put`].
    Work(Place, W),
    /// Others are at work from which more may come.
    Wait,
    /// There will be no more, or nothing that counts.
    Over,
}

/// Where a piece of work stood.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

const ENDS: usize = 0;

impl<W> Agenda<W> {
    /// No more is taken than is needed for so many matches, or bytes, and one match beyond.
    pub fn new(work: impl IntoIterator<Item = W>, max_matches: usize, max_bytes: usize) -> Self {
        let ends = Entry { item: Item::Ends, before: ENDS, after: ENDS };
        let mut agenda = Self { entries: vec![ends], free: Vec::new(), taken: 0, max_matches, max_bytes };
        for work in work {
            agenda.insert(ENDS, Item::Work(work));
        }
        agenda
    }

    /// The first piece of work that nobody has.
    pub fn next(&mut self) -> Next<W> {
        let (mut at, mut matches, mut bytes, mut taken) = (self.entries[ENDS].after, 0_usize, 0_usize, 0_usize);
        while at != ENDS {
            let entry = &mut self.entries[at];
            match &entry.item {
                Item::Found(found) => {
                    matches = matches.saturating_add(found.matches);
                    bytes = bytes.saturating_add(found.bytes);
                    if matches > self.max_matches || bytes > self.max_bytes {
                        return if taken == 0 { Next::Over } else { Next::Wait };
                    }
                }
                Item::Taken => taken += 1,
                Item::Work(_) => {
                    self.taken += 1;
                    if let Item::Work(work) = std::mem::replace(&mut entry.item, Item::Taken) {
                        return Next::Work(Place(at), work);
                    }
                }
                Item::Ends | Item::Free => {}
            }
            at = self.entries[at].after;
        }
        if self.taken == 0 { Next::Over } else { Next::Wait }
    }

    /// Puts what came of a piece of work where that stood.
    pub fn put(&mut self, place: Place, fruits: impl IntoIterator<Item = Fruit<W>>) {
        let Place(at) = place;
        self.taken = self.taken.saturating_sub(1);
        for fruit in fruits {
            match fruit {
                Fruit::Work(work) => self.insert(at, Item::Work(work)),
                Fruit::Found(found) => {
                    let before = self.entries[at].before;
                    match &mut self.entries[before].item {
                        Item::Found(first) => first.append(found),
                        _ => self.insert(at, Item::Found(found)),
                    }
                }
            }
        }
        let (before, after) = (self.entries[at].before, self.entries[at].after);
        self.remove(at);
        if let Item::Found(_) = self.entries[before].item
            && let Item::Found(found) = &mut self.entries[after].item
        {
            let found = std::mem::take(found);
            self.remove(after);
            if let Item::Found(first) = &mut self.entries[before].item {
                first.append(found);
            }
        }
    }

    /// All that was found, in order.
    pub fn found(self) -> Vec<Hit> {
        let (mut hits, mut at) = (Vec::new(), self.entries[ENDS].after);
        let mut entries = self.entries;
        while at != ENDS {
            if let Item::Found(found) = &mut entries[at].item {
                hits.append(&mut found.hits);
            }
            at = entries[at].after;
        }
        hits
    }

    fn insert(&mut self, after: usize, item: Item<W>) {
        let before = self.entries[after].before;
        let entry = Entry { item, before, after };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.entries[before].after = at;
        self.entries[after].before = at;
    }

    fn remove(&mut self, at: usize) {
        let (before, after) = (self.entries[at].before, self.entries[at].after);
        self.entries[before].after = after;
        self.entries[after].before = before;
        self.entries[at].item = Item::Free;
        self.free.push(at);
    }
}

impl Found {
    /// One more, at the end.
    pub fn push(&mut self, hit: Hit) {
        self.matches += usize::from(!hit.is_context);
        self.bytes = self.bytes.saturating_add(hit.cost());
        self.hits.push(hit);
    }

    /// What stands after it.
    pub fn append(&mut self, mut next: Self) {
        self.hits.append(&mut next.hits);
        self.matches = self.matches.saturating_add(next.matches);
        self.bytes = self.bytes.saturating_add(next.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> Fruit<&'static str> {
        let mut found = Found::default();
        for name in names {
            found.push(Hit { path: name.into(), ..Hit::default() });
        }
        Fruit::Found(found)
    }

    fn take(agenda: &mut Agenda<&'static str>) -> (Place, &'static str) {
        match agenda.next() {
            Next::Work(place, work) => (place, work),
            Next::Wait => panic!("wait"),
            Next::Over => panic!("over"),
        }
    }

    fn names(agenda: Agenda<&'static str>) -> Vec<String> {
        agenda.found().iter().map(|hit| hit.path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_comes_of_work_stands_in_its_place() {
        let mut agenda = Agenda::new(["a", "b", "c"], 100, 1 << 20);
        let (a, b) = (take(&mut agenda), take(&mut agenda));
        assert_eq!((a.1, b.1), ("a", "b"));
        agenda.put(b.0, [found(&["b1"]), Fruit::Work("b2")]);
        agenda.put(a.0, [Fruit::Work("a1"), found(&["a2"]), Fruit::Work("a3")]);
        let (first, second) = (take(&mut agenda), take(&mut agenda));
        assert_eq!((first.1, second.1), ("a1", "a3"));
        agenda.put(second.0, [found(&["a3", "a3+"])]);
        let (third, fourth) = (take(&mut agenda), take(&mut agenda));
        assert_eq!((third.1, fourth.1), ("b2", "c"));
        assert!(matches!(agenda.next(), Next::Wait));
        agenda.put(fourth.0, []);
        agenda.put(third.0, [found(&["b2"])]);
        assert!(matches!(agenda.next(), Next::Wait));
        agenda.put(first.0, [found(&["a1"])]);
        assert!(matches!(agenda.next(), Next::Over));
        assert_eq!(names(agenda), ["a1", "a2", "a3", "a3+", "b1", "b2"]);
    }

    #[test]
    fn enough_is_what_stands_first() {
        let mut agenda = Agenda::new(["a", "b", "c"], 1, 1 << 20);
        let (a, b) = (take(&mut agenda), take(&mut agenda));
        // More than enough, but what comes of `a` stands before it.
        agenda.put(b.0, [found(&["b1", "b2"])]);
        assert!(matches!(agenda.next(), Next::Wait), "`c` can give nothing that counts");
        agenda.put(a.0, [Fruit::Work("a1")]);
        let a1 = take(&mut agenda);
        assert_eq!(a1.1, "a1");
        agenda.put(a1.0, []);
        assert!(matches!(agenda.next(), Next::Over));
        assert_eq!(names(agenda), ["b1", "b2"]);
    }

    #[test]
    fn the_front_stays_short_and_places_are_used_again() {
        let mut agenda = Agenda::new(["slow"], usize::MAX, usize::MAX);
        let slow = take(&mut agenda);
        agenda.put(slow.0, [Fruit::Work("first"), Fruit::Work("many")]);
        let first = take(&mut agenda);
        for _ in 0..1000 {
            let many = take(&mut agenda);
            agenda.put(many.0, [found(&["x"]), Fruit::Work("many")]);
        }
        assert!(agenda.entries.len() < 8, "{}", agenda.entries.len());
        agenda.put(first.0, [found(&["first"])]);
        let names = names(agenda);
        assert_eq!((names.len(), names[0].as_str()), (1001, "first"));
    }
}
