//! Served resources, in a short notation.

use std::{sync::Arc, time::Duration};

use oxds_core::snapshot::{ChangeSet, ChangedResource, Limits, Resource, Snapshot};
use oxds_types::{Reference, ResourceType};

/// The current snapshot.
pub(crate) struct World {
    pub(crate) snapshot: Arc<Snapshot>,
}

/// Change set under construction.
#[derive(Default)]
pub(crate) struct Edit(ChangeSet);

/// Resource with references: `"A=1"`; `"A=1@4"` has a TTL of four seconds.
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
    // The content is the whole text, as a SotW reply carries no names.
    let resource = Resource::new(resource_type, name, text.as_bytes()).with_references(references);
    Arc::new(match ttl {
        Some(seconds) => resource.with_ttl(Duration::from_secs(seconds)),
        None => resource,
    })
}

/// Names that a resource refers to, secrets aside: `X` and `Y` of `"A=1>X,Y,S0"`.
pub(crate) fn needs(text: &str) -> impl Iterator<Item = &str> {
    references(text).filter(|name| !is_secret(name))
}

/// Secrets that a resource refers to: `S0` of `"A=1>X,Y,S0"`.
pub(crate) fn secrets(text: &str) -> impl Iterator<Item = &str> {
    references(text).filter(|name| is_secret(name))
}

fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split_once('>')
        .into_iter()
        .flat_map(|(_, needed)| needed.split('@').next().unwrap_or_default().split(','))
}

fn is_secret(name: &str) -> bool {
    let number = name.strip_prefix('S');
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// Type of the resources that resources of this type refer to.
fn needed_type(resource_type: &ResourceType) -> ResourceType {
    match *resource_type {
        ResourceType::LISTENER => ResourceType::ROUTE,
        ResourceType::ROUTE => ResourceType::CLUSTER,
        _ => ResourceType::ENDPOINT,
    }
}

impl World {
    /// Loaded, without resources.
    pub(crate) fn empty() -> Self {
        Self::unloaded().and(Edit::default())
    }

    /// Not loaded yet.
    pub(crate) fn unloaded() -> Self {
        Self {
            snapshot: Snapshot::unloaded(),
        }
    }

    /// Loaded, without resources, with limits.
    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            snapshot: Snapshot::with_limits(limits),
        }
        .and(Edit::default())
    }

    /// Resources of one type: `["A=1", "B=1"]`.
    pub(crate) fn of(resource_type: &ResourceType, texts: &[&str]) -> Self {
        let mut world = Self::empty();
        world.set(resource_type, texts);
        world
    }

    fn and(mut self, edit: Edit) -> Self {
        self.apply(edit);
        self
    }

    /// Applies one change set: `"A=2"` sets a resource, `"-A"` removes it.
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
    /// Sets `"A=2"` or `"A=2>X,Y,S0"`, or removes `"-A"`.
    pub(crate) fn set(mut self, resource_type: &ResourceType, text: &str) -> Self {
        match text.strip_prefix('-') {
            Some(name) => self
                .0
                .removals
                .push((resource_type.clone(), Arc::from(name))),
            None => {
                let needed = needed_type(resource_type);
                let others = needs(text).map(|name| (needed.clone(), name));
                let secrets = secrets(text).map(|name| (ResourceType::SECRET, name));
                let needs: Vec<_> = others.chain(secrets).collect();
                self.0
                    .upserts
                    .push(resource(resource_type.clone(), text, &needs));
            }
        }
        self
    }

    /// Sets a resource with references.
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
