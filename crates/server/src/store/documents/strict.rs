//! Strict mode: no change is served that would lead to a reference to nothing (S-70).
//!
//! ```text
//!  candidates ──▶ conflicts of names ──▶ removals that others need ──▶ references to nothing ──▶ accepted
//!       ▲                                    │ refused                     │ refused
//!       └────────────────────────────────────┴─────────────────────────────┘ until a round refuses nothing
//! ```
//!
//! A document that is refused keeps its last content. This can make its names missing elsewhere, so one round is not
//! enough.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use oxds_core::snapshot::ResourceKey;

use super::changes::Scope;
use super::conflicts::{self, Candidates, Resolution};
use super::document::{DocumentId, PlacedResource};
use super::group;
use super::ownership::Ownership;
use super::references::{MISSING, Referrers, dangling};
use crate::store::finding::{Finding, Severity};

/// The documents that a round refuses, with the reasons.
type Refusals = BTreeMap<DocumentId, Vec<Finding>>;

/// Decides which candidates may be served, so that every reference of a served resource leads to one. `served` returns
/// the resources that a document serves now.
pub(super) fn resolve<'a>(
    root: &Path,
    candidates: &Candidates<'_>,
    owned: &Ownership,
    referrers: &Referrers,
    served: impl Fn(&DocumentId) -> &'a [PlacedResource],
) -> Resolution {
    // Removals that others need stay refused, because the content of the others can only be older.
    let mut removals = Refusals::new();
    let mut references = Refusals::new();
    loop {
        let mut left = candidates.clone();
        left.retain(|id, _| !removals.contains_key(id) && !references.contains_key(id));
        let mut resolution = conflicts::resolve(root, &left, owned);
        let round = Round::new(root, candidates, owned, &resolution);
        let needed = round.needed_removals(referrers, &served);
        if !needed.is_empty() {
            removals.extend(needed);
            // What these documents keep may be what others were refused for.
            references.clear();
            continue;
        }
        let missing = round.references_to_nothing();
        if missing.is_empty() {
            resolution.refusals.extend(removals);
            resolution.refusals.extend(references);
            return resolution;
        }
        references.extend(missing);
    }
}

/// The state after a change, if the accepted candidates were served.
struct Round<'a> {
    root: &'a Path,
    candidates: &'a Candidates<'a>,
    owned: &'a Ownership,
    resolution: &'a Resolution,
    /// The names that accepted candidates have.
    provided: HashSet<(Scope, ResourceKey)>,
    /// The names that only candidates have that are not accepted.
    refused: HashMap<ResourceKey, &'a DocumentId>,
}

impl<'a> Round<'a> {
    fn new(
        root: &'a Path,
        candidates: &'a Candidates<'a>,
        owned: &'a Ownership,
        resolution: &'a Resolution,
    ) -> Self {
        let (mut provided, mut refused) = (HashSet::new(), HashMap::new());
        for (id, resources) in candidates {
            let scope = group::of(root, id);
            for placed in *resources {
                if resolution.accepted.contains(id) {
                    provided.insert((scope.clone(), placed.key()));
                } else {
                    refused.insert(placed.key(), id);
                }
            }
        }
        Self {
            root,
            candidates,
            owned,
            resolution,
            provided,
            refused,
        }
    }

    /// Whether the nodes of `scope` would see a resource.
    fn exists(&self, scope: &Scope, key: &ResourceKey) -> bool {
        let stays = |scope: &Scope| {
            let owner = self.owned.owner(scope, key);
            owner.is_some_and(|owner| !self.resolution.accepted.contains(owner))
        };
        let provided = |scope: &Scope| self.provided.contains(&(scope.clone(), key.clone()));
        let exists = |scope: &Scope| provided(scope) || stays(scope);
        exists(scope) || exists(&None)
    }

    /// Returns the accepted candidates that remove a resource to which a document refers that does not change.
    fn needed_removals<'s>(
        &self,
        referrers: &Referrers,
        served: impl Fn(&DocumentId) -> &'s [PlacedResource],
    ) -> Refusals {
        let mut refusals = Refusals::new();
        for id in &self.resolution.accepted {
            let scope = group::of(self.root, id);
            for placed in served(id) {
                let key = placed.key();
                let needs = |referrer: &&DocumentId| {
                    let seen_from = group::of(self.root, referrer);
                    !self.resolution.accepted.contains(*referrer)
                        && (scope.is_none() || scope == seen_from)
                        && !self.exists(&seen_from, &key)
                };
                if let Some(referrer) = referrers.of(&key).find(needs) {
                    let finding = needed(id, placed, referrer);
                    refusals
                        .entry(DocumentId::clone(id))
                        .or_default()
                        .push(finding);
                }
            }
        }
        refusals
    }

    /// Returns the accepted candidates with a reference to nothing.
    fn references_to_nothing(&self) -> Refusals {
        let mut refusals = Refusals::new();
        for id in &self.resolution.accepted {
            let scope = group::of(self.root, id);
            let problem = |key: &ResourceKey| match self.refused.get(key) {
                _ if self.exists(&scope, key) => None,
                Some(other) => {
                    let other = other.display();
                    Some(format!("is not served because of the errors in {other}"))
                }
                None => Some(MISSING.to_owned()),
            };
            let placed = self.candidates.get(id).copied().unwrap_or_default();
            let findings: Vec<_> = placed
                .iter()
                .flat_map(|placed| dangling(id, placed, Severity::Error, problem))
                .collect();
            if !findings.is_empty() {
                refusals.insert(DocumentId::clone(id), findings);
            }
        }
        refusals
    }
}

fn needed(id: &Path, placed: &PlacedResource, referrer: &Path) -> Finding {
    let (resource_type, name) = placed.key();
    let message = format!(
        "{} refers to {resource_type} {name:?}, which would be removed: the last content of this file stays served",
        referrer.display()
    );
    Finding {
        resource: Some(name.to_string()),
        resource_type: Some(resource_type),
        ..Finding::for_file(id, "dangling", &message)
    }
}
