//! Values that are made once per key while they are in use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Unused values are not removed below this number of values.
const FEW: usize = 16;

/// Values by key, held weakly.
#[derive(Debug)]
pub(super) struct SharedValues<K, V>(Mutex<Values<K, V>>);

#[derive(Debug)]
struct Values<K, V> {
    by_key: HashMap<K, Weak<V>>,
    /// Number of values at which unused ones are removed.
    full: usize,
}

impl<K, V> Default for SharedValues<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Values {
            by_key: HashMap::new(),
            full: FEW,
        }))
    }
}

impl<K: Eq + Hash, V> SharedValues<K, V> {
    /// Returns the value of a key that is in use, or else makes one.
    pub(super) fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> Arc<V> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.by_key.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        // All values are looked at once they have doubled: a listener may have ten thousand.
        if values.by_key.len() >= values.full {
            values.by_key.retain(|_, value| value.strong_count() > 0);
            values.full = (2 * values.by_key.len()).max(FEW);
        }
        let new = Arc::new(make(&key));
        values.by_key.insert(key, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_in_use_are_removed() {
        let shared = SharedValues::<usize, usize>::default();
        let held = (0..100).map(|key| shared.get(key, |key| *key));
        let held: Vec<_> = held.collect();
        for key in 100..10_000 {
            assert_eq!(*shared.get(key, |key| *key), key);
        }
        assert!(Arc::ptr_eq(&held[7], &shared.get(7, |_| 0)));
        let values = shared.0.lock().unwrap();
        assert!(values.by_key.len() <= 200, "{}", values.by_key.len());
        assert_eq!(values.full, 200);
    }
}
