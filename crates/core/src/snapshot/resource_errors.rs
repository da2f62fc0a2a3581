//! Names that the source has but cannot serve, with the reason.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use oxds_types::ResourceType;

/// Error texts of one type by name, for the operators of the clients.
type ErrorsByName = HashMap<Arc<str>, Arc<str>>;

/// Errors of the source as it is now. They belong to no revision: an error changes no state.
#[derive(Debug, Default)]
pub(super) struct ResourceErrors(RwLock<HashMap<ResourceType, ErrorsByName>>);

impl ResourceErrors {
    /// Replaces all errors at once. The first error of a name is kept.
    pub(super) fn replace(
        &self,
        errors: impl IntoIterator<Item = (ResourceType, Arc<str>, Arc<str>)>,
    ) {
        let mut by_type: HashMap<ResourceType, ErrorsByName> = HashMap::new();
        for (resource_type, name, error) in errors {
            by_type
                .entry(resource_type)
                .or_default()
                .entry(name)
                .or_insert(error);
        }
        // The map is replaced as a whole, so that readers never see a part of the new errors.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = by_type;
    }

    pub(super) fn get(&self, resource_type: &ResourceType, name: &str) -> Option<Arc<str>> {
        let errors = self.0.read().unwrap_or_else(PoisonError::into_inner);
        errors.get(resource_type)?.get(name).cloned()
    }
}
