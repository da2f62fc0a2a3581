//! Why names are not served that their source has.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use oxds_types::Kind;

/// What is wrong with a kind's resources, and where, by name: for the people at the other end.
type ByName = HashMap<Arc<str>, Arc<str>>;

/// Of the source as it is now, whatever the revision: it changes no state.
#[derive(Debug, Default)]
pub(super) struct Faults(RwLock<HashMap<Kind, ByName>>);

impl Faults {
    pub(super) fn replace(&self, faults: impl IntoIterator<Item = (Kind, Arc<str>, Arc<str>)>) {
        let mut by_kind: HashMap<Kind, ByName> = HashMap::new();
        for (kind, name, fault) in faults {
            by_kind
                .entry(kind)
                .or_default()
                .entry(name)
                .or_insert(fault);
        }
        // Replaced as a whole, never torn.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = by_kind;
    }

    pub(super) fn of(&self, kind: &Kind, name: &str) -> Option<Arc<str>> {
        let faults = self.0.read().unwrap_or_else(PoisonError::into_inner);
        faults.get(kind)?.get(name).cloned()
    }
}
