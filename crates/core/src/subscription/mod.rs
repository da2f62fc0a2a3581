//! Subscriptions: one set of rules for both protocol variants.
//!
//! A SotW request lists the whole subscription, a delta request lists names to add and to remove. Both lead to the
//! same state, and both yield the same [`SubscriptionChange`].
//!
//! ```text
//!                 first request names nothing                 any request: "*"
//!                 (types with the legacy wildcard)
//!   ┌─────────┐ ────────────────────────────▶ ┌────────┐ ───────────────────────▶ ┌──────────┐
//!   │ Unasked │                               │ Legacy │                          │ Explicit │
//!   └─────────┘ ─────────┐                    └────────┘                          └──────────┘
//!                        │ first request            │ SotW: names without "*"        │ SotW: a request without "*"
//!                        ▼ names something          │ delta: unsubscribes "*"        │ delta: unsubscribes "*"
//!                     ┌──────┐ ◀────────────────────┴────────────────────────────────┘
//!                     │ None │   from here an empty request means "nothing", never "everything" (S-12 … S-14, S-40)
//!                     └──────┘
//! ```
//!
//! Names are kept besides the wildcard in each of its states (S-13, S-40).

mod name;
mod names;

use std::sync::Arc;

use oxds_types::{ResourceType, name::WILDCARD};

pub(crate) use name::Verdict;
pub use name::{Sent, SubscribedName};
use names::SortedNames;

use crate::sample::SAMPLE;

/// Kind of wildcard subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wildcard {
    /// No request arrived yet.
    #[default]
    Unasked,
    /// No wildcard: names only.
    None,
    /// Requested by a first request without names.
    Legacy,
    /// Requested by the name `*`.
    Explicit,
}

/// Subscription of one client to one resource type, with the state of each name.
#[derive(Debug, Default)]
pub struct Subscription {
    wildcard: Wildcard,
    names: SortedNames,
}

/// Changes that one request made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscriptionChange {
    /// Change of the wildcard, if any.
    pub wildcard: Option<WildcardChange>,
    /// Names that were not subscribed before.
    pub added: Vec<Arc<str>>,
    /// Names that are subscribed again, as the client lost them (S-35). Delta only.
    pub repeated: Vec<Arc<str>>,
    /// Names that are not subscribed any more.
    pub dropped: Vec<Arc<str>>,
}

/// Change of the wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WildcardChange {
    /// The wildcard is subscribed from now on.
    Gained,
    /// The wildcard is subscribed again (S-36).
    Repeated,
    /// Only names are subscribed from now on.
    Lost,
}

/// Returns whether a first request without names is a wildcard subscription.
///
/// The protocol defines this for LDS and CDS, and Envoy relies on it for SRDS. oxds does the same for types that it
/// does not know. It must not hold for the others: an empty SDS subscription does not ask for all secrets.
#[must_use]
pub fn has_legacy_wildcard(resource_type: &ResourceType) -> bool {
    resource_type.all_resources_required_in_sotw()
        || *resource_type == ResourceType::SCOPED_ROUTE
        || resource_type.short_name().is_none()
}

impl Subscription {
    /// Creates the subscription of a client that has not sent a request yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether a request arrived.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.wildcard != Wildcard::Unasked
    }

    /// Whether the invariants hold; for debug assertions.
    pub(crate) fn is_consistent(&self) -> bool {
        let names = self.iter().map(SubscribedName::name).take(SAMPLE);
        names.is_sorted_by(|a, b| a < b) && (self.is_asked() || self.is_empty())
    }

    /// Returns whether the wildcard is subscribed.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        matches!(self.wildcard, Wildcard::Legacy | Wildcard::Explicit)
    }

    /// Returns whether this name is subscribed by name.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Returns the number of subscribed names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.as_slice().len()
    }

    /// Returns whether no name is subscribed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the names with their states, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SubscribedName> {
        self.names.as_slice().iter()
    }

    /// Returns the state of a subscribed name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SubscribedName> {
        self.at(self.position(name)?)
    }

    /// Returns the place of a name in the order of all.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.names.find(name).ok()
    }

    pub(crate) fn at(&self, position: usize) -> Option<&SubscribedName> {
        self.names.as_slice().get(position)
    }

    pub(crate) fn at_mut(&mut self, position: usize) -> Option<&mut SubscribedName> {
        self.names.as_mut_slice().get_mut(position)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut SubscribedName> {
        let position = self.position(name)?;
        self.at_mut(position)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SubscribedName> {
        self.names.as_mut_slice().iter_mut()
    }

    /// Calls `visit` for each item whose name is subscribed. Fast if the items are in order, without gaps.
    pub(crate) fn visit<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        name: impl Fn(&T) -> &str,
        mut visit: impl FnMut(&mut SubscribedName, T),
    ) {
        let mut near = 0;
        for item in items {
            if let Ok(at) = self.names.find_near(near, name(&item)) {
                visit(&mut self.names.as_mut_slice()[at], item);
                near = at + 1;
            }
        }
    }

    /// Adds a name that a glob matches; returns whether it is new.
    pub(crate) fn insert(&mut self, name: &Arc<str>) -> bool {
        let is_new = !self.has_name(name);
        if is_new {
            self.names.add(std::slice::from_ref(name));
        }
        is_new
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.names.take(&[name]);
    }

    /// SotW: replaces the subscription by `names`.
    pub fn replace(&mut self, names: &[String], legacy: bool) -> SubscriptionChange {
        let (wanted, starred) = names_and_star(names);
        let before = self.wildcard;
        self.wildcard = match before {
            _ if starred => Wildcard::Explicit,
            Wildcard::Unasked if wanted.is_empty() && legacy => Wildcard::Legacy,
            // xDS protocol, "How the client specifies what resources to return": the legacy wildcard lasts until a
            // request has names (S-13).
            Wildcard::Legacy if wanted.is_empty() => Wildcard::Legacy,
            _ => Wildcard::None,
        };

        let mut change = SubscriptionChange {
            wildcard: self.compare(before),
            ..SubscriptionChange::default()
        };
        let mut wanted = wanted.into_iter().peekable();
        self.names.retain(|named| {
            let name = &**named.name();
            while let Some(new) = wanted.next_if(|wanted| *wanted < name) {
                change.added.push(new.into());
            }
            let stays = wanted.next_if_eq(&name).is_some();
            if !stays {
                change.dropped.push(Arc::clone(named.name()));
            }
            stays
        });
        change.added.extend(wanted.map(Arc::from));
        self.names.add(&change.added);
        change
    }

    /// Delta: adds `subscribe` and removes `unsubscribe`. Names in both are removed (S-41).
    pub fn update(
        &mut self,
        subscribe: &[String],
        unsubscribe: &[String],
        legacy: bool,
    ) -> SubscriptionChange {
        let (mut wanted, starred) = names_and_star(subscribe);
        let (unwanted, unstarred) = names_and_star(unsubscribe);
        let before = self.wildcard;
        self.wildcard = match before {
            _ if unstarred => Wildcard::None,
            _ if starred => Wildcard::Explicit,
            Wildcard::Unasked if wanted.is_empty() && legacy => Wildcard::Legacy,
            Wildcard::Unasked => Wildcard::None,
            before => before,
        };

        let mut change = SubscriptionChange {
            wildcard: self.compare(before),
            ..SubscriptionChange::default()
        };
        if change.wildcard.is_none() && starred && self.is_wildcard() {
            change.wildcard = Some(WildcardChange::Repeated);
        }
        wanted.retain(|name| unwanted.binary_search(name).is_err());
        let mut near = 0;
        for name in wanted {
            match self.names.find_near(near, name) {
                Ok(at) => {
                    let known = self.names.as_slice()[at].name();
                    change.repeated.push(Arc::clone(known));
                    near = at + 1;
                }
                Err(_) => change.added.push(name.into()),
            }
        }
        self.names.add(&change.added);
        // xDS protocol, "Unsubscribing From Resources": unsubscribing from a name without a subscription is allowed
        // (S-38).
        change.dropped = self.names.take(&unwanted);
        change
    }

    fn compare(&self, before: Wildcard) -> Option<WildcardChange> {
        let was = matches!(before, Wildcard::Legacy | Wildcard::Explicit);
        match (was, self.is_wildcard()) {
            (false, true) => Some(WildcardChange::Gained),
            (true, false) => Some(WildcardChange::Lost),
            _ => None,
        }
    }
}

/// Returns the names sorted and without duplicates, and whether `*` was among them.
fn names_and_star(names: &[String]) -> (Vec<&str>, bool) {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let star = sorted.binary_search(&WILDCARD);
    if let Ok(at) = star {
        sorted.remove(at);
    }
    (sorted, star.is_ok())
}

#[cfg(test)]
mod tests;
