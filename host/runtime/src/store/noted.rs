//! What the index is told of a session file while it is written: that it is being written, before the first byte; how it is now; how it was left.
//!
//! A file of others becomes ours with its first append, in which the session marks what stood there before. So the index is told after that
//! append, not before: were the process killed between the two, the file would count as ours without the mark.

use super::open::Open;
use crate::index::{Claim, Head, Holder, Index, Provenance, Record, Stamp};
use pith_core::Totals;
use pith_protocol::Header;
use std::path::Path;

/// One file's notes.
pub(crate) struct Noted {
    /// None: nobody is told.
    index: Option<Index>,
    holder: Holder,
    /// The file was ours, or new, when it was opened.
    is_own: bool,
    /// The index knows that it is being written.
    is_begun: bool,
    /// The last count, and the file's length with it.
    counted: Option<(u64, Totals)>,
}

impl Noted {
    /// Nobody is told.
    pub fn nowhere() -> Self {
        Self { index: None, holder: Holder::default(), is_own: false, is_begun: false, counted: None }
    }

    /// In this index; `provenance` is whose the file was when it was opened, `Own` for a new one.
    pub fn in_index(index: Index, holder: Holder, provenance: Provenance) -> Self {
        Self { index: Some(index), holder, is_own: provenance == Provenance::Own, is_begun: false, counted: None }
    }

    /// A file is about to be made.
    pub(super) fn before_creation(&mut self, path: &Path, header: &Header) {
        self.is_own = true;
        // Once, however often it is tried.
        self.is_begun = self.is_begun || self.note(path, Stamp::default(), None, true, Head::of(header), None);
    }

    /// A file that was there is about to be written.
    pub(super) fn before_append(&mut self, path: &Path, open: &Open) {
        if self.is_own && !self.is_begun {
            self.begin(path, open);
        }
    }

    /// It was written.
    pub(super) fn after_append(&mut self, path: &Path, open: &Open) {
        self.is_own = true;
        if !self.is_begun {
            self.begin(path, open);
        }
    }

    /// The session went on from `old`, which others changed, in a file of its own.
    pub(super) fn moved(&mut self, old: (&Path, &Open), new: (&Path, &Open)) {
        self.left(old.0, old.1);
        self.begin(new.0, new.1);
    }

    fn begin(&mut self, path: &Path, open: &Open) {
        let Some(met) = open.met() else { return };
        self.is_begun = self.note(path, Stamp::of(&met), Some(open.sum()), true, Head::of(&open.header), None);
    }

    /// What the session comes to now.
    pub(super) fn totals(&mut self, path: &Path, open: &Open, totals: Totals) {
        let Some(met) = open.met().filter(|_| self.is_begun) else { return };
        self.note(path, Stamp::of(&met), Some(open.sum()), true, Head::of(&open.header), Some(totals.clone()));
        self.keep_totals(open, totals);
    }

    /// The same, noted when it is left.
    pub(super) fn keep_totals(&mut self, open: &Open, totals: Totals) {
        self.counted = open.met().map(|met| (met.len(), totals));
    }

    /// It is not written any more.
    pub(super) fn left(&mut self, path: &Path, open: &Open) {
        if !std::mem::take(&mut self.is_begun) {
            return;
        }
        match open.met() {
            Some(met) => {
                let stamp = Stamp::of(&met);
                let counted = self.counted.take().filter(|(bytes, _)| *bytes == stamp.bytes);
                self.note(
                    path,
                    stamp,
                    Some(open.sum()),
                    false,
                    Head::of(&open.header),
                    counted.map(|(_, totals)| totals),
                );
            }
            // Others changed it: it is not ours any more.
            None => drop(self.note(path, Stamp::default(), None, false, Head::of(&open.header), None)),
        }
    }

    /// Whether it could be noted. Where it could not, the file is read again for a listing, or counts as foreign: the session itself goes on.
    fn note(
        &self,
        path: &Path,
        stamp: Stamp,
        sum: Option<u64>,
        is_writing: bool,
        head: Head,
        totals: Option<Totals>,
    ) -> bool {
        let Some(index) = &self.index else { return true };
        let Some(name) = index.name(path) else { return true };
        let record = Record {
            file: name.to_owned(),
            stamp,
            sum,
            claim: Claim::Own,
            writing: is_writing.then(|| self.holder.clone()),
            head: Some(head),
            totals,
            gone: false,
        };
        index.note(&record).is_ok()
    }
}
