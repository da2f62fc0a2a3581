//! Readers: the parts of a program that have read a key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Keys that are recorded. Others are read all the same.
const MAX_KEYS: usize = 10_000;

/// The parts of a program that have read each key, whether it is set or not. At most 10,000 keys are recorded.
#[derive(Debug, Default)]
pub struct Readers(Mutex<BTreeMap<String, BTreeSet<&'static str>>>);

impl Readers {
    /// Records that a part of the program has read a key.
    pub fn record(&self, key: &str, reader: &'static str) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(readers) = keys.get_mut(key) {
            readers.insert(reader);
        } else if keys.len() < MAX_KEYS {
            keys.insert(key.to_owned(), BTreeSet::from([reader]));
        }
    }

    /// Returns the readers of a key, sorted.
    #[must_use]
    pub fn of(&self, key: &str) -> Vec<&'static str> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(key).into_iter().flatten().copied().collect()
    }

    /// Returns the keys that were read, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.keys().cloned().collect()
    }
}
