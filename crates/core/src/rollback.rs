//! What to do when clients refuse a change: go back to what all of them had accepted (S-80).
//!
//! ```text
//!              the store changes it,                more nodes than the threshold
//!              all had accepted the old             refuse it
//!   (nothing) ──────────────────────────▶ on trial ─────────────────────────────▶ withdrawn
//!       ▲                                  │  ▲                                       │
//!       │ removed, or as it was before     │  │ the store changes it once more        │
//!       └──────────────────────────────────┴──┴───────────────────────────────────────┘
//! ```
//!
//! A resource is put on trial when it changes and there is a version that every client which should have had it had
//! accepted: that is what it returns to. One that is new, or that not all had accepted when it was replaced, has none;
//! then what an earlier trial would have returned to stays, or nothing is done.
//!
//! Memory: for each resource that changed, the former content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_types::{ResourceType, Version};

use crate::snapshot::{ChangeSet, Resource};
use crate::time::Instant;

/// Whose resource: of all nodes (`None`) or of a group, and its kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The group, if it is not for all.
    pub group: Option<Arc<str>>,
    /// The kind.
    pub resource_type: ResourceType,
    /// The name.
    pub name: Arc<str>,
}

/// The decisions. Its driver keeps what is served.
#[derive(Debug)]
pub struct Rollback {
    threshold: usize,
    trials: BTreeMap<Place, Trial>,
}

/// A change that clients may refuse.
#[derive(Debug, Clone)]
struct Trial {
    good: Arc<Resource>,
    offered: Arc<Resource>,
    refused_by: BTreeSet<Arc<str>>,
    withdrawn: Option<Verdict>,
}

#[derive(Debug, Clone)]
struct Verdict {
    reason: Arc<str>,
    at: Instant,
}

/// What a client refused.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// `node.id` of the client.
    pub node: &'a str,
    /// The kind of the resource.
    pub resource_type: &'a ResourceType,
    /// Its name.
    pub name: &'a str,
    /// The version of the content.
    pub version: Version,
    /// What the client said.
    pub reason: &'a Arc<str>,
}

/// A change that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    /// Of what.
    pub place: Place,
    /// What the store has, and clients refused.
    pub offered: Arc<Resource>,
    /// What is served instead.
    pub good: Arc<Resource>,
    /// The nodes that refused it.
    pub refused_by: Vec<Arc<str>>,
    /// What the last of them said.
    pub reason: Arc<str>,
    /// When.
    pub at: Instant,
}

impl Rollback {
    /// Takes a change back when more nodes than this refuse it: with zero, the first is enough.
    #[must_use]
    pub fn new(threshold: usize) -> Self {
        Self {
            threshold,
            trials: BTreeMap::new(),
        }
    }

    /// The store changes resources of all nodes, or of a group. What of it is to be served.
    ///
    /// `served` says what is served in a place now, `accepted` whether every client that should have that has accepted
    /// it, and there is one.
    pub fn handle_changes(
        &mut self,
        group: Option<&Arc<str>>,
        changes: ChangeSet,
        served: impl Fn(&Place) -> Option<Arc<Resource>>,
        accepted: impl Fn(&Resource) -> bool,
    ) -> ChangeSet {
        let place = |resource_type: &ResourceType, name: &Arc<str>| Place {
            group: group.cloned(),
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
        };
        let ChangeSet {
            mut upserts,
            removals,
        } = changes;
        // A resource that is in both is there afterwards.
        let stay: BTreeSet<_> = upserts
            .iter()
            .map(|r| place(r.resource_type(), r.name()))
            .collect();
        for (resource_type, name) in &removals {
            let place = place(resource_type, name);
            if !stay.contains(&place) {
                self.trials.remove(&place);
            }
        }
        upserts.retain(|new| {
            self.offer(
                place(new.resource_type(), new.name()),
                new,
                &served,
                &accepted,
            )
        });
        ChangeSet { upserts, removals }
    }

    /// Whether to serve it.
    fn offer(
        &mut self,
        place: Place,
        new: &Arc<Resource>,
        served: impl Fn(&Place) -> Option<Arc<Resource>>,
        accepted: impl Fn(&Resource) -> bool,
    ) -> bool {
        let before = self.trials.remove(&place);
        let Some(old) = served(&place) else {
            return true;
        };
        let good = match before {
            // The store repeats itself: that is no change to be tried anew.
            Some(trial) if trial.withdrawn.is_some() && trial.offered == *new => {
                self.trials.insert(place, trial);
                return false;
            }
            Some(trial) if trial.withdrawn.is_some() => Some(trial.good),
            Some(trial) if trial.offered == *new => {
                self.trials.insert(place, trial);
                return true;
            }
            _ if accepted(&old) => Some(old),
            Some(trial) => Some(trial.good),
            None => None,
        };
        if let Some(good) = good.filter(|good| good != new) {
            let trial = Trial {
                good,
                offered: Arc::clone(new),
                refused_by: BTreeSet::new(),
                withdrawn: None,
            };
            self.trials.insert(place, trial);
        }
        true
    }

    /// A client refused a resource. What is to be taken back for that: in each place, `good` is to be served again.
    pub fn handle_refusal(&mut self, now: Instant, refusal: Refusal<'_>) -> Vec<Withdrawn> {
        let mut withdrawn = Vec::new();
        for (place, trial) in &mut self.trials {
            let is_it = *place.name == *refusal.name
                && place.resource_type == *refusal.resource_type
                && trial.offered.version() == refusal.version;
            if !is_it || trial.withdrawn.is_some() {
                continue;
            }
            trial.refused_by.insert(refusal.node.into());
            if trial.refused_by.len() > self.threshold {
                trial.withdrawn = Some(Verdict {
                    reason: Arc::clone(refusal.reason),
                    at: now,
                });
                withdrawn.extend(trial.withdrawn_from(place));
            }
        }
        withdrawn
    }

    /// All that is taken back now.
    pub fn withdrawn(&self) -> impl Iterator<Item = Withdrawn> {
        let trials = self.trials.iter();
        trials.filter_map(|(place, trial)| trial.withdrawn_from(place))
    }
}

impl Trial {
    fn withdrawn_from(&self, place: &Place) -> Option<Withdrawn> {
        let verdict = self.withdrawn.as_ref()?;
        Some(Withdrawn {
            place: place.clone(),
            offered: Arc::clone(&self.offered),
            good: Arc::clone(&self.good),
            refused_by: self.refused_by.iter().cloned().collect(),
            reason: Arc::clone(&verdict.reason),
            at: verdict.at,
        })
    }
}
