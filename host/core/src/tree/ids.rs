//! Ids in little memory: 8 lower-case hex digits, as pi and Pith write them, are 4 bytes; ids of others stand in one text.

use super::ENTRIES_LIMIT;
use pith_protocol::EntryId;
use std::hash::{BuildHasher, RandomState};

/// No slot, no parent.
pub(crate) const NONE: u32 = u32::MAX;

/// One id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdKey {
    /// The bits of 8 lower-case hex digits.
    Bits(u32),
    /// The place in `Ids::spans`.
    Text(u32),
}

/// Ids by index, and indices by id: a table of indices, probed one slot after the other.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    keys: Vec<u32>,
    /// A bit for each key: it is a place in `spans`.
    spelled: Vec<u64>,
    text: String,
    spans: Vec<(u64, u32)>,
    /// A power of two long, at most three quarters full.
    slots: Vec<u32>,
    /// With keys of its own, since others choose the ids.
    hasher: RandomState,
}

impl Ids {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    fn key(&self, index: u32) -> IdKey {
        let at = index as usize;
        let is_spelled = self.spelled.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1);
        if is_spelled { IdKey::Text(self.keys[at]) } else { IdKey::Bits(self.keys[at]) }
    }

    fn spelling(&self, span: u32) -> &str {
        let (start, length) = self.spans[span as usize];
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        self.text.get(start..start.saturating_add(length as usize)).unwrap_or_default()
    }

    /// The id of an index that is there.
    pub fn get(&self, index: u32) -> EntryId {
        match self.key(index) {
            IdKey::Bits(bits) => EntryId::from_bits(bits),
            IdKey::Text(span) => EntryId::from(self.spelling(span)),
        }
    }

    pub fn find(&self, id: &str) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let bits = bits_of(id);
        let mask = self.slots.len() - 1;
        let mut at = self.hash(bits, id) & mask;
        loop {
            let index = self.slots[at];
            if index == NONE {
                return None;
            }
            let is_it = match (self.key(index), bits) {
                (IdKey::Bits(present), Some(bits)) => present == bits,
                (IdKey::Text(span), None) => self.spelling(span) == id,
                _ => false,
            };
            if is_it {
                return Some(index);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an id that is not there, under the next index. None where there is no room for one more.
    pub fn push(&mut self, id: &str) -> Option<u32> {
        let index = u32::try_from(self.keys.len()).ok().filter(|index| *index < ENTRIES_LIMIT)?;
        let bits = bits_of(id);
        let key = match bits {
            Some(bits) => bits,
            None => {
                let span = u32::try_from(self.spans.len()).ok()?;
                self.spans.push((self.text.len() as u64, u32::try_from(id.len()).ok()?));
                self.text.push_str(id);
                let word = self.keys.len() / 64;
                if self.spelled.len() <= word {
                    self.spelled.resize(word + 1, 0);
                }
                self.spelled[word] |= 1 << (self.keys.len() % 64);
                span
            }
        };
        self.keys.push(key);
        if (self.keys.len() as u64) * 4 > (self.slots.len() as u64) * 3 {
            self.grow();
        } else {
            let hash = self.hash(bits, id);
            self.place(index, hash);
        }
        Some(index)
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        self.slots = vec![NONE; size];
        for index in 0..u32::try_from(self.keys.len()).unwrap_or(NONE) {
            let hash = match self.key(index) {
                IdKey::Bits(bits) => self.hash(Some(bits), ""),
                IdKey::Text(span) => self.hash(None, self.spelling(span)),
            };
            self.place(index, hash);
        }
    }

    fn place(&mut self, index: u32, hash: usize) {
        let mask = self.slots.len() - 1;
        let mut at = hash & mask;
        while self.slots[at] != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = index;
    }

    fn hash(&self, bits: Option<u32>, id: &str) -> usize {
        let hash = match bits {
            Some(bits) => self.hasher.hash_one(bits),
            None => self.hasher.hash_one(id),
        };
        usize::try_from(hash & 0xffff_ffff).unwrap_or(0)
    }
}

/// The bits of an id of 8 lower-case hex digits.
fn bits_of(id: &str) -> Option<u32> {
    let is_plain = id.len() == 8 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_plain.then(|| u32::from_str_radix(id, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_text_are_found_again_and_no_two_are_taken_for_one() {
        let mut ids = Ids::default();
        let mut names: Vec<String> = (0u32..3000).map(|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9))).collect();
        names.extend((0..1000).map(|n| format!("m{n}")));
        names.extend(["", "ABCDEF01", "é", "0000000", "000000000", "\0"].map(str::to_owned));
        for (at, name) in names.iter().enumerate() {
            assert_eq!(ids.find(name), None, "{name}");
            assert_eq!(ids.push(name), u32::try_from(at).ok());
        }
        for (at, name) in names.iter().enumerate() {
            let index = ids.find(name).unwrap();
            assert_eq!(index as usize, at);
            assert_eq!(ids.get(index).as_str(), name);
        }
        assert_eq!(ids.len(), names.len());
        assert_eq!(ids.find("abcdef01"), None);
    }
}
