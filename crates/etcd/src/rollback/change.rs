//! Knowledge of one replica about a change that clients NACKed.

use std::sync::Arc;

use oxds_types::Version;

use super::nodes::NackingNodes;
use crate::entry::Place;
use crate::stored::Stored;
use oxds_core::snapshot::Resource;

/// A change of the lane that its clients have not all accepted: resources that refer to each other and changed
/// together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The changed resources, by their places.
    pub parts: Vec<TrialPart>,
    /// Nodes that NACKed a part.
    pub nodes: NackingNodes,
    /// Error message of a NACK; empty without one.
    pub reason: Arc<str>,
}

/// A changed resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialPart {
    /// Place of the resource.
    pub place: Place,
    /// The published resource; `None` if it is removed.
    pub stored: Option<Arc<Resource>>,
    /// Content that all clients had accepted; `None` if it did not exist.
    pub good: Option<Arc<Resource>>,
}

/// Answer of a replica about a NACKed version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// The version is part of this change, and all clients had accepted the former one.
    Trial(Trial),
    /// The replica has no clients that see the place.
    NoClients,
    /// A client had not accepted a former version, or the replica does not know one.
    Lacking,
    /// The replica does not serve the version, or not yet.
    NotServed,
}

impl Trial {
    /// Returns the place that names the change in keys, and its published version: the first part that has content.
    /// Removals have nothing that a client could NACK.
    #[must_use]
    pub fn first(&self) -> Option<(&Place, Version)> {
        let with_content = self.parts.iter();
        let mut with_content =
            with_content.filter_map(|part| Some((&part.place, part.stored.as_ref()?)));
        let (place, stored) = with_content.next()?;
        Some((place, Stored::version_of(stored)))
    }

    /// Returns the hash of all places with their published and their former versions. Two replicas with equal hashes
    /// would roll back to the same content.
    #[must_use]
    pub fn hash(&self) -> Version {
        let mut text = String::new();
        for part in &self.parts {
            let of = |resource: &Option<Arc<Resource>>| match resource {
                Some(resource) => Stored::version_of(resource).to_string(),
                None => "-".to_owned(),
            };
            let (stored, good) = (of(&part.stored), of(&part.good));
            // Names may have any character but a line break would be ambiguous: the length decides.
            let place = part.place.to_string();
            text += &format!("{} {place} {stored} {good}\n", place.len());
        }
        Version::of(text.as_bytes())
    }
}
