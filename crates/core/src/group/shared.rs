//! One copy of what is equal.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use oxds_types::Version;

use super::ResourceKey;
use crate::snapshot::Resource;

/// Knows resources as long as somebody has them, and gives the same one for each that is equal.
#[derive(Debug, Default)]
pub struct ResourceInterner(HashMap<(ResourceKey, Version), Weak<Resource>>);

impl ResourceInterner {
    /// The one that is known, if it is equal to this; else this, which is known from now on.
    #[must_use]
    pub fn get(&mut self, resource: Arc<Resource>) -> Arc<Resource> {
        // What nobody has any more is forgotten before the table would grow.
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
    fn equal_resources_are_one_whatever_came_between() {
        let mut shared = ResourceInterner::default();
        let one = shared.get(resource(1));
        let other = shared.get(resource(2));
        assert!(Arc::ptr_eq(&one, &shared.get(resource(1))));
        assert!(Arc::ptr_eq(&other, &shared.get(resource(2))));
    }

    #[test]
    fn what_nobody_has_is_forgotten() {
        let mut shared = ResourceInterner::default();
        for content in 0..=u8::MAX {
            drop(shared.get(resource(content)));
        }
        assert!(shared.0.len() < 32, "{}", shared.0.len());
    }
}
