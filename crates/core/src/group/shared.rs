//! Interner of resources: one copy of equal ones.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use oxds_types::Version;

use super::ResourceKey;
use crate::snapshot::Resource;

/// Interner: returns one shared copy for equal resources, as long as the copy is in use.
#[derive(Debug, Default)]
pub struct ResourceInterner(HashMap<(ResourceKey, Version), Weak<Resource>>);

impl ResourceInterner {
    /// Returns the known copy of an equal resource, or this resource, which is known from then on.
    #[must_use]
    pub fn get(&mut self, resource: Arc<Resource>) -> Arc<Resource> {
        // Unused copies are removed before the table would grow.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|_, known| known.strong_count() > 0);
        }
        let known = self
            .0
            .entry((resource.key(), resource.version()))
            .or_default();
        match known.upgrade() {
            Some(known) if known == resource => known,
            _ => {
                *known = Arc::downgrade(&resource);
                resource
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use super::*;

    fn resource(content: u8) -> Arc<Resource> {
        Arc::new(Resource::new(ResourceType::CLUSTER, "a", &[content]))
    }

    #[test]
    fn equal_resources_are_interned() {
        let mut shared = ResourceInterner::default();
        let one = shared.get(resource(1));
        let other = shared.get(resource(2));
        assert!(Arc::ptr_eq(&one, &shared.get(resource(1))));
        assert!(Arc::ptr_eq(&other, &shared.get(resource(2))));
    }

    #[test]
    fn unused_resources_are_forgotten() {
        let mut shared = ResourceInterner::default();
        for content in 0..=u8::MAX {
            drop(shared.get(resource(content)));
        }
        assert!(shared.0.len() < 32, "{}", shared.0.len());
    }
}
