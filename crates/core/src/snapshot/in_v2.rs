//! What clients of v2 are served: the same resources, in v2 (S-62), but for those that say what v2 cannot (S-63).
//!
//! ```text
//!   TypeSnapshot, v3 ──apply──▶ TypeSnapshot, v3 ──apply──▶ …
//!        │ the first who asks     │
//!        ▼                        ▼ only what changed
//!   TypeSnapshot, v2 ─────────▶ TypeSnapshot, v2 ─────────▶ …
//! ```
//! To a session it is a state like any other, with revisions of the same count: a resource that v2 cannot say does not
//! exist in it, and one that v2 cannot say any more was removed. Versions are those of v3, so that both kinds of client
//! agree on them.

use std::sync::Arc;

use imbl::OrdMap;

use super::published::Settings;
use super::{ResourceSet, Revision, TypeSnapshot, change::OfType, resource::Obstacles};

/// The state of one kind for clients of v2.
#[derive(Debug)]
pub(super) struct InV2 {
    pub(super) published: Arc<TypeSnapshot>,
    /// What they do not get, and why.
    pub(super) withheld: OrdMap<Arc<str>, Obstacles>,
}

impl InV2 {
    /// Of all there is. Costs as much as there is, once.
    pub(super) fn of(current: &TypeSnapshot, settings: &Arc<Settings>) -> Self {
        let (mut resources, mut old) = (ResourceSet::default(), Vec::new());
        let mut withheld = OrdMap::new();
        for resource in current.collection().iter() {
            match resource.in_v2() {
                Ok(in_v2) => old.push(Arc::clone(in_v2)),
                Err(obstacles) => {
                    withheld.insert(Arc::clone(resource.name()), Arc::clone(obstacles));
                }
            }
        }
        resources.insert_all(&old);
        Self {
            published: Arc::new(current.alike(resources, settings)),
            withheld,
        }
    }

    /// After these names changed. `to` is what they are now, in v3.
    pub(super) fn next(
        &self,
        revision: Revision,
        changed: &[Arc<str>],
        to: &ResourceSet,
        settings: &Arc<Settings>,
    ) -> Self {
        let mut withheld = self.withheld.clone();
        let mut changes = OfType::new();
        for name in changed {
            withheld.remove(name);
            let new = to.get(name).and_then(|resource| match resource.in_v2() {
                Ok(old) => Some(Arc::clone(old)),
                Err(obstacles) => {
                    withheld.insert(Arc::clone(name), Arc::clone(obstacles));
                    None
                }
            });
            changes.insert(Arc::clone(name), new);
        }
        let published = self.published.apply(revision, changes, settings);
        Self {
            published: published.map_or_else(
                || Arc::clone(&self.published),
                |(published, _)| Arc::new(published),
            ),
            withheld,
        }
    }
}
