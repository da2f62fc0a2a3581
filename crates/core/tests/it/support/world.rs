//! What is served, in a notation short enough to read in a scenario.

use std::{sync::Arc, time::Duration};

use oxds_core::snapshot::{ChangeSet, ChangedResource, Limits, Resource, Snapshot};
use oxds_types::{Reference, ResourceType};

/// What is served now.
pub(crate) struct World {
    pub(crate) snapshot: Arc<Snapshot>,
}

/// A change set in the making.
#[derive(Default)]
pub(crate) struct Edit(ChangeSet);

/// A resource that needs others: `"A=1"` with these references; `"A=1@4"` lives four seconds.
pub(crate) fn resource(
    resource_type: ResourceType,
    text: &str,
    needs: &[(ResourceType, &str)],
) -> Arc<Resource> {
    let (text, ttl) = match text.split_once('@') {
        Some((text, seconds)) => (text, Some(seconds.parse().expect("seconds"))),
        None => (text, None),
    };
    let (name, _) = text.split_once('=').expect("name=content");
    let references: Vec<_> = needs
        .iter()
        .map(|(resource_type, name)| Reference {
            resource_type: resource_type.clone(),
            name: Arc::from(*name),
        })
        .collect();
    // The content is the whole text, so that a SotW reply, which carries no names, shows whose it is.
    let resource = Resource::new(resource_type, name, text.as_bytes()).with_references(references);
    Arc::new(match ttl {
        Some(seconds) => resource.with_ttl(Duration::from_secs(seconds)),
        None => resource,
    })
}

/// What a text says that its resource needs: `"A=1>X,Y"`.
pub(crate) fn needs(text: &str) -> impl Iterator<Item = &str> {
    text.split_once('>')
        .into_iter()
        .flat_map(|(_, needed)| needed.split('@').next().unwrap_or_default().split(','))
}

/// The kind of what resources of this kind need.
fn needed_type(resource_type: &ResourceType) -> ResourceType {
    match *resource_type {
        ResourceType::LISTENER => ResourceType::ROUTE,
        ResourceType::ROUTE => ResourceType::CLUSTER,
        _ => ResourceType::ENDPOINT,
    }
}

impl World {
    /// Loaded, and empty.
    pub(crate) fn empty() -> Self {
        Self::unloaded().and(Edit::default())
    }

    /// Nothing loaded yet.
    pub(crate) fn unloaded() -> Self {
        Self {
            snapshot: Snapshot::unloaded(),
        }
    }

    /// Loaded, and empty, with limits.
    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            snapshot: Snapshot::with_limits(limits),
        }
        .and(Edit::default())
    }

    /// One kind with these resources: `["A=1", "B=1"]`.
    pub(crate) fn of(resource_type: &ResourceType, texts: &[&str]) -> Self {
        let mut world = Self::empty();
        world.set(resource_type, texts);
        world
    }

    fn and(mut self, edit: Edit) -> Self {
        self.apply(edit);
        self
    }

    /// One change set: each `"A=2"` is set, each `"-A"` removed.
    pub(crate) fn set(
        &mut self,
        resource_type: &ResourceType,
        texts: &[&str],
    ) -> Vec<ChangedResource> {
        self.apply(
            texts
                .iter()
                .fold(Edit::default(), |edit, text| edit.set(resource_type, text)),
        )
    }

    pub(crate) fn apply(&mut self, edit: Edit) -> Vec<ChangedResource> {
        let (snapshot, changed) = self.snapshot.apply(edit.0);
        self.snapshot = snapshot;
        changed
    }
}

impl Edit {
    /// Sets `"A=2"` or `"A=2>X,Y"`, or removes `"-A"`.
    pub(crate) fn set(mut self, resource_type: &ResourceType, text: &str) -> Self {
        match text.strip_prefix('-') {
            Some(name) => self
                .0
                .removals
                .push((resource_type.clone(), Arc::from(name))),
            None => {
                let needed = needed_type(resource_type);
                let needs: Vec<_> = needs(text).map(|name| (needed.clone(), name)).collect();
                self.0
                    .upserts
                    .push(resource(resource_type.clone(), text, &needs));
            }
        }
        self
    }

    /// Sets a resource that needs others.
    pub(crate) fn with(
        mut self,
        resource_type: &ResourceType,
        text: &str,
        needs: &[(ResourceType, &str)],
    ) -> Self {
        self.0
            .upserts
            .push(resource(resource_type.clone(), text, needs));
        self
    }
}
