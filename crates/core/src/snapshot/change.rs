//! What a store hands over: a set of changes that belong together.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::Kind;

use super::{Resource, Snapshot};

/// Changes that every session sees together, or not at all (S-69).
///
/// Removals come before upserts, so a resource that is in both is there afterwards; of two upserts of one name the
/// later counts.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// Resources to add or to replace.
    pub upserts: Vec<Arc<Resource>>,
    /// Resources to take away; those that do not exist are passed over.
    pub removals: Vec<(Kind, Arc<str>)>,
}

/// Adds or replaces all of them.
impl<R: Into<Arc<Resource>>> FromIterator<R> for ChangeSet {
    fn from_iter<I: IntoIterator<Item = R>>(resources: I) -> Self {
        Self {
            upserts: resources.into_iter().map(Into::into).collect(),
            removals: Vec::new(),
        }
    }
}

/// A resource that a change set added, replaced or removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: Arc<str>,
}

/// The part of a change set that concerns one kind: each name once, `None` for a removal.
pub(super) type OfKind = BTreeMap<Arc<str>, Option<Arc<Resource>>>;

impl ChangeSet {
    /// What is to be done to a snapshot so that it holds exactly these resources; where a kind is given, exactly these
    /// of that kind. What is equal already is not in it.
    ///
    /// O(what it holds): both sides are gone through once, side by side. Sorting comes before it, which costs little
    /// where the resources come nearly in order.
    #[must_use]
    pub fn replacing(
        before: &Snapshot,
        kind: Option<&Kind>,
        resources: impl IntoIterator<Item = impl Into<Arc<Resource>>>,
    ) -> Self {
        let mut wanted: Vec<Arc<Resource>> = resources.into_iter().map(Into::into).collect();
        // Stable: of two of one name the later stays behind the other.
        wanted.sort_by(|a, b| order(a).cmp(&order(b)));
        let kinds = before
            .kinds()
            .filter(|(of, _)| kind.is_none_or(|kind| kind == *of));
        let mut held = kinds
            .flat_map(|(_, published)| published.collection().iter())
            .peekable();
        let mut changes = Self::default();
        let mut wanted = wanted.into_iter().peekable();
        while let Some(new) = wanted.next() {
            if wanted
                .peek()
                .is_some_and(|later| order(later) == order(&new))
            {
                continue;
            }
            while let Some(gone) = held.next_if(|held| order(held) < order(&new)) {
                changes.removals.push(gone.key());
            }
            match held.next_if(|held| order(held) == order(&new)) {
                Some(same) if **same == *new => {}
                _ => changes.upserts.push(new),
            }
        }
        changes.removals.extend(held.map(|gone| gone.key()));
        changes
    }

    /// Adds or replaces this one, too.
    #[must_use]
    pub fn put(mut self, resource: impl Into<Arc<Resource>>) -> Self {
        self.upserts.push(resource.into());
        self
    }

    /// Takes this one away, too.
    #[must_use]
    pub fn remove(mut self, kind: Kind, name: impl Into<Arc<str>>) -> Self {
        self.removals.push((kind, name.into()));
        self
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.removals.is_empty()
    }

    pub(super) fn by_kind(self) -> BTreeMap<Kind, OfKind> {
        let mut kinds: BTreeMap<Kind, OfKind> = BTreeMap::new();
        for (kind, name) in self.removals {
            kinds.entry(kind).or_default().insert(name, None);
        }
        for resource in self.upserts {
            let of_kind = kinds.entry(resource.kind().clone()).or_default();
            of_kind.insert(resource.name().clone(), Some(resource));
        }
        kinds
    }
}

/// In the order of a snapshot.
fn order(resource: &Resource) -> (&Kind, &str) {
    (resource.kind(), resource.name())
}
