//! Why names are not served that their source has.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use oxds_types::ResourceType;

/// What is wrong with a kind's resources, and where, by name: for the people at the other end.
type ByName = HashMap<Arc<str>, Arc<str>>;

/// Of the source as it is now, whatever the revision: it changes no state.
#[derive(Debug, Default)]
pub(super) struct Faults(RwLock<HashMap<ResourceType, ByName>>);

impl Faults {
    pub(super) fn replace(
        &self,
        faults: impl IntoIterator<Item = (ResourceType, Arc<str>, Arc<str>)>,
    ) {
        let mut by_type: HashMap<ResourceType, ByName> = HashMap::new();
        for (resource_type, name, fault) in faults {
            by_type
                .entry(resource_type)
                .or_default()
                .entry(name)
                .or_insert(fault);
        }
        // Replaced as a whole, never torn.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = by_type;
    }

    pub(super) fn of(&self, resource_type: &ResourceType, name: &str) -> Option<Arc<str>> {
        let faults = self.0.read().unwrap_or_else(PoisonError::into_inner);
        faults.get(resource_type)?.get(name).cloned()
    }
}
