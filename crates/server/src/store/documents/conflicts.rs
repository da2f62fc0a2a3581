//! Conflicts: names that more than one document has, and which of them may be served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use oxds_core::snapshot::ResourceKey;

use super::changes::Scope;
use super::document::{DocumentId, PlacedResource};
use super::group;
use super::ownership::{MatcherClass, Ownership};
use crate::store::finding::Finding;

/// The documents that wait to be served, with their resources.
pub(super) type Candidates<'a> = BTreeMap<DocumentId, &'a [PlacedResource]>;

/// The result of [`resolve`].
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// The candidates that own all their names.
    pub(super) accepted: BTreeSet<DocumentId>,
    /// The other candidates, with the reasons.
    pub(super) refusals: BTreeMap<DocumentId, Vec<Finding>>,
}

/// Decides which candidates may be served.
///
/// A name belongs to the document that has it. A name that moves between two candidates moves.
pub(super) fn resolve(root: &Path, candidates: &Candidates<'_>, owned: &Ownership) -> Resolution {
    let mut resolution = Resolution {
        accepted: candidates.keys().cloned().collect(),
        refusals: BTreeMap::new(),
    };
    // Each round refuses at least one document. A refused document keeps its old names, and these may conflict with
    // another candidate: so one round is not enough.
    loop {
        let round = Round {
            root,
            owned,
            accepted: &resolution.accepted,
            claims: HashMap::new(),
            group_claims: GroupClaims::new(),
            conflicts: BTreeMap::new(),
        };
        let conflicts = round.run(candidates);
        if conflicts.is_empty() {
            return resolution;
        }
        for (id, findings) in conflicts {
            resolution.accepted.remove(&id);
            resolution.refusals.insert(id, findings);
        }
    }
}

/// The candidates that claim a name for groups of one class.
type GroupClaims<'a> = HashMap<(ResourceKey, &'a MatcherClass), Vec<(Arc<str>, &'a DocumentId)>>;

/// One pass over the candidates that are still accepted.
struct Round<'a> {
    root: &'a Path,
    owned: &'a Ownership,
    accepted: &'a BTreeSet<DocumentId>,
    /// The names that candidates of this round claim so far.
    claims: HashMap<(Scope, ResourceKey), (&'a DocumentId, &'a PlacedResource)>,
    group_claims: GroupClaims<'a>,
    conflicts: BTreeMap<DocumentId, Vec<Finding>>,
}

impl<'a> Round<'a> {
    /// Returns the candidates that claim a name of another document, with the reasons.
    fn run(mut self, candidates: &'a Candidates<'_>) -> BTreeMap<DocumentId, Vec<Finding>> {
        for id in self.accepted {
            let scope = group::of(self.root, id);
            let placed = candidates.get(id).copied().unwrap_or_default();
            for placed in placed {
                self.claim(id, &scope, placed);
            }
        }
        self.conflicts
    }

    fn claim(&mut self, id: &'a DocumentId, scope: &Scope, placed: &'a PlacedResource) {
        let key = placed.key();
        // A node could see both resources, and neither group is more specific, so neither could win (S-74).
        if let Some(other) = self.rival(scope, &key, id) {
            self.refuse(id, placed, other);
            return;
        }
        let owner = self.owned.owner(scope, &key);
        let claim = (scope.clone(), key);
        match (owner, self.claims.get(&claim).copied()) {
            // The owner does not change in this round, so it keeps the name (S-72: a duplicate names both files).
            (Some(owner), _) if !self.accepted.contains(owner) => self.refuse(id, placed, owner),
            (_, None) => {
                self.claims.insert(claim, (id, placed));
            }
            // Of two candidates, the present owner has priority …
            (Some(owner), Some((other, theirs))) if owner == id && other != id => {
                self.refuse(other, theirs, id);
                self.claims.insert(claim, (id, placed));
            }
            // … then the first by id.
            (_, Some((other, _))) => self.refuse(id, placed, other),
        }
    }

    /// Returns the document of an equally specific group that has or claims the name; otherwise records the
    /// claim of `id`.
    fn rival(
        &mut self,
        scope: &Scope,
        key: &ResourceKey,
        id: &'a DocumentId,
    ) -> Option<&'a DocumentId> {
        let owned = self.owned;
        let (name, class) = scope.as_ref().zip(owned.class(scope))?;
        let rivals = owned.rivals(scope, key).into_iter();
        let mut served = rivals
            .filter_map(|rival| owned.owner(&Some(Arc::clone(rival)), key))
            .filter(|owner| !self.accepted.contains(*owner));
        let claims = self.group_claims.entry((key.clone(), class)).or_default();
        let conflicts = |rival: &Arc<str>| rival != name && owned.may_share_nodes(name, rival);
        let claimed = claims.iter().find(|(rival, _)| conflicts(rival));
        let rival = served.next().or(claimed.map(|(_, id)| *id));
        if rival.is_none() {
            claims.push((Arc::clone(name), id));
        }
        rival
    }

    fn refuse(&mut self, id: &DocumentId, placed: &PlacedResource, other: &Path) {
        self.conflicts
            .entry(Arc::clone(id))
            .or_default()
            .push(duplicate(id, placed, other));
    }
}

fn duplicate(id: &Path, placed: &PlacedResource, other: &Path) -> Finding {
    let resource = &placed.resource;
    let (resource_type, name) = (resource.resource_type(), resource.name());
    let message = if id == other {
        format!("duplicate {resource_type} {name:?}: already defined in this file")
    } else {
        format!(
            "duplicate {resource_type} {name:?}: already defined in {}",
            other.display()
        )
    };
    Finding {
        position: placed.position(),
        resource_type: Some(resource_type.clone()),
        resource: Some(name.to_string()),
        ..Finding::for_file(id, "duplicate", &message)
    }
}
