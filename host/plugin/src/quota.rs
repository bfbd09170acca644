//! What an instance may use: memory, tables, core instances. Growth past a limit fails in the guest, and is noted: what traps after that
//! failed for want of it.

use crate::limits::{CORE_INSTANCES, TABLE_ELEMENTS};
use wasmtime::ResourceLimiter;

/// Counts all memories and tables of one store together.
#[derive(Debug)]
pub(crate) struct Quota {
    memory_limit_bytes: usize,
    memory_bytes: usize,
    table_elements: usize,
    /// The first limit that was reached.
    refused: Option<Refused>,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Memory { limit_bytes: usize },
    Tables,
}

impl Quota {
    pub fn new(memory_limit_bytes: usize) -> Self {
        Self { memory_limit_bytes, memory_bytes: 0, table_elements: 0, refused: None }
    }

    /// All memories together: they never shrink, so this is also the most that there was.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    pub fn refused(&self) -> Option<Refused> {
        self.refused
    }
}

/// The total after a growth, where it is within the limit.
fn grown(total: usize, current: usize, desired: usize, limit: usize) -> Option<usize> {
    let after = total.checked_add(desired.saturating_sub(current))?;
    (after <= limit).then_some(after)
}

impl ResourceLimiter for Quota {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // What the guest's own maximum forbids is the guest's affair.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        match grown(self.memory_bytes, current, desired, self.memory_limit_bytes) {
            Some(total) => {
                self.memory_bytes = total;
                Ok(true)
            }
            None => {
                self.refused.get_or_insert(Refused::Memory { limit_bytes: self.memory_limit_bytes });
                Ok(false)
            }
        }
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // A slot of the pool has our own limit for its maximum.
        if maximum.is_some_and(|maximum| desired > maximum && maximum < TABLE_ELEMENTS) {
            return Ok(false);
        }
        match grown(self.table_elements, current, desired, TABLE_ELEMENTS) {
            Some(total) => {
                self.table_elements = total;
                Ok(true)
            }
            None => {
                self.refused.get_or_insert(Refused::Tables);
                Ok(false)
            }
        }
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES
    }

    fn tables(&self) -> usize {
        CORE_INSTANCES
    }

    fn memories(&self) -> usize {
        CORE_INSTANCES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memories_count_together_and_the_first_limit_is_noted() {
        let mut quota = Quota::new(100);
        assert!(quota.memory_growing(0, 60, None).unwrap());
        assert!(quota.memory_growing(0, 40, None).unwrap(), "a second memory");
        assert_eq!(quota.refused(), None);
        assert!(!quota.memory_growing(40, 41, None).unwrap());
        assert!(!quota.table_growing(0, TABLE_ELEMENTS + 1, None).unwrap());
        assert_eq!(quota.refused(), Some(Refused::Memory { limit_bytes: 100 }));
        assert!(!quota.memory_growing(0, usize::MAX, None).unwrap());
    }

    #[test]
    fn what_the_guests_own_maximum_forbids_is_not_the_hosts_limit() {
        let mut quota = Quota::new(100);
        assert!(!quota.memory_growing(0, 50, Some(40)).unwrap());
        assert!(!quota.table_growing(0, 50, Some(40)).unwrap());
        assert_eq!(quota.refused(), None);
        assert!(quota.table_growing(0, TABLE_ELEMENTS, None).unwrap());
        assert!(!quota.table_growing(0, 1, None).unwrap());
        assert_eq!(quota.refused(), Some(Refused::Tables));
    }
}
