//! One line of the index: what was last known of one session file. The last line of a file counts.

use super::{Holder, Provenance};
use pith_core::Totals;
use pith_protocol::Header;
use serde::{Deserialize, Serialize};
use std::{fs::Metadata, os::unix::fs::MetadataExt};

/// What tells whether a file is as it was: whoever changes it changes one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stamp {
    pub bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub modified: i64,
}

impl Stamp {
    pub fn of(met: &Metadata) -> Self {
        let modified = met.mtime().saturating_mul(1_000_000_000).saturating_add(met.mtime_nsec());
        Self { bytes: met.len(), modified }
    }
}

/// What a session file's first line says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Head {
    pub id: String,
    pub cwd: String,
    pub created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

impl Head {
    pub fn of(header: &Header) -> Self {
        Self {
            id: header.id.to_string(),
            cwd: header.cwd.clone(),
            created: header.timestamp.clone(),
            parent: header.parent_session.clone(),
        }
    }
}

/// Whose the file was when it was noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    /// This user's Pith wrote it.
    Own,
    /// The user said that it is to be trusted.
    Trusted,
    /// It was only looked at.
    #[default]
    Seen,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record {
    /// From the sessions folder.
    pub file: String,
    pub stamp: Stamp,
    /// A sum of its bytes: it is as it was also where only its time differs, as after `touch`, or out of a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<u64>,
    pub claim: Claim,
    /// Who was writing it: it may be longer than the stamp says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writing: Option<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Of the file as the stamp says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// It was deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl Record {
    pub fn gone(file: &str) -> Self {
        Self { file: file.to_owned(), gone: true, ..Self::default() }
    }

    /// Whose the file is now; `read` is its header and its sum, where it was read. One that was being written when its writer was killed is ours if it begins as it was noted, and may have grown.
    pub fn provenance(&self, now: Stamp, read: Option<(&Head, u64)>) -> Provenance {
        let has_sum = |sum| self.stamp.bytes == now.bytes && self.sum == Some(sum);
        let is_same = self.stamp == now || read.is_some_and(|(_, sum)| has_sum(sum));
        let head = read.map(|(head, _)| head);
        let has_grown = self.writing.is_some()
            && now.bytes >= self.stamp.bytes
            && self.head.is_some()
            && self.head.as_ref() == head;
        match self.claim {
            _ if self.gone => Provenance::Foreign,
            Claim::Own if is_same || has_grown => Provenance::Own,
            Claim::Trusted if is_same => Provenance::Trusted,
            _ => Provenance::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_as_long_as_it_is_as_we_left_it() {
        let stamp = Stamp { bytes: 100, modified: 7 };
        let longer = Stamp { bytes: 120, modified: 9 };
        let head = Head { id: "a".to_owned(), ..Head::default() };
        let other = Head { id: "b".to_owned(), ..Head::default() };
        let own = Record { stamp, sum: Some(5), claim: Claim::Own, head: Some(head.clone()), ..Record::default() };
        assert_eq!(own.provenance(stamp, None), Provenance::Own);
        for changed in [longer, Stamp { modified: 8, ..stamp }, Stamp { bytes: 99, ..stamp }] {
            assert_eq!(own.provenance(changed, Some((&head, 6))), Provenance::Foreign);
        }
        // Touched.
        assert_eq!(own.provenance(Stamp { modified: 8, ..stamp }, Some((&head, 5))), Provenance::Own);
        assert_eq!(own.provenance(longer, Some((&head, 5))), Provenance::Foreign);
        let writing = Record { writing: Some(Holder::default()), ..own.clone() };
        assert_eq!(writing.provenance(longer, Some((&head, 6))), Provenance::Own);
        assert_eq!(writing.provenance(Stamp { bytes: 99, ..longer }, Some((&head, 6))), Provenance::Foreign);
        assert_eq!(writing.provenance(longer, Some((&other, 6))), Provenance::Foreign);
        assert_eq!(writing.provenance(longer, None), Provenance::Foreign);
        let trusted = Record { claim: Claim::Trusted, ..writing.clone() };
        assert_eq!(trusted.provenance(stamp, None), Provenance::Trusted);
        assert_eq!(trusted.provenance(longer, Some((&head, 6))), Provenance::Foreign);
        assert_eq!(Record { claim: Claim::Seen, ..own }.provenance(stamp, None), Provenance::Foreign);
        assert_eq!(Record { gone: true, ..writing }.provenance(stamp, None), Provenance::Foreign);
    }
}
