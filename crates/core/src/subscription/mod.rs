//! What a client asked for: one set of rules for both protocol variants.
//!
//! SotW says the whole subscription with every request, delta says what to add and what to take away; both end in the
//! same state, and both yield the same [`SubscriptionChange`].
//!
//! ```text
//!                 first request names nothing                 any request: "*"
//!                 (kinds with the legacy wildcard)
//!   ┌─────────┐ ────────────────────────────▶ ┌────────┐ ───────────────────────▶ ┌──────────┐
//!   │ Unasked │                               │ Legacy │                          │ Explicit │
//!   └─────────┘ ─────────┐                    └────────┘                          └──────────┘
//!                        │ first request            │ SotW: names without "*"        │ SotW: a request without "*"
//!                        ▼ names something          │ delta: unsubscribes "*"        │ delta: unsubscribes "*"
//!                     ┌──────┐ ◀────────────────────┴────────────────────────────────┘
//!                     │ None │   from here an empty request is "nothing", never "everything" (S-12 … S-14, S-40)
//!                     └──────┘
//! ```
//!
//! Names are kept beside the wildcard, whichever state it is in (S-13, S-40).

mod name;
mod names;

use std::sync::Arc;

use oxds_types::{ResourceType, name::WILDCARD};

pub use name::{Sent, SubscribedName};
use names::SortedNames;

/// Whether, and how, everything was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wildcard {
    /// There has been no request yet.
    #[default]
    Unasked,
    /// Only what is named.
    None,
    /// By a first request that named nothing.
    Legacy,
    /// By the name `*`.
    Explicit,
}

/// The subscription of one client to one kind, with what is known of each name.
#[derive(Debug, Default)]
pub struct Subscription {
    wildcard: Wildcard,
    names: SortedNames,
}

/// What a request changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubscriptionChange {
    /// What happened to the subscription to everything.
    pub wildcard: Option<WildcardChange>,
    /// SortedNames that were not subscribed to before.
    pub added: Vec<Arc<str>>,
    /// SortedNames that were, and are asked for again: the client lost them (S-35). Delta only.
    pub repeated: Vec<Arc<str>>,
    /// SortedNames that are not subscribed to any more.
    pub dropped: Vec<Arc<str>>,
}

/// What a request did to the subscription to everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WildcardChange {
    /// Everything is asked for from now on.
    Gained,
    /// Everything is asked for again (S-36).
    Repeated,
    /// Only names are, from now on.
    Lost,
}

/// Whether a first request without names asks for everything.
///
/// The protocol says so of LDS and CDS; Envoy relies on it for SRDS; and of kinds it does not know, oxds has nothing
/// better to assume. Of the others it must not be assumed: an empty SDS subscription is no request for all secrets.
#[must_use]
pub fn has_legacy_wildcard(resource_type: &ResourceType) -> bool {
    resource_type.all_resources_required_in_sotw()
        || *resource_type == ResourceType::SCOPED_ROUTE
        || resource_type.short_name().is_none()
}

impl Subscription {
    /// The subscription of a client that has not said anything yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there was a request.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.wildcard != Wildcard::Unasked
    }

    /// Whether everything is asked for.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        matches!(self.wildcard, Wildcard::Legacy | Wildcard::Explicit)
    }

    /// Whether this name is asked for by name.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// How many names are asked for by name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.as_slice().len()
    }

    /// Whether nothing is asked for by name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names, in order, and what is known of each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SubscribedName> {
        self.names.as_slice().iter()
    }

    /// What is known of a name that is asked for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SubscribedName> {
        self.at(self.position(name)?)
    }

    /// Where a name is in the order of all.
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

    /// Changes what is known of these, as far as they are asked for: quickly if they come in order, without gaps.
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

    /// Adds a name that nobody asked for by itself. Whether it is new.
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

    /// SotW: `names` is all that the client asks for from now on.
    pub fn replace(&mut self, names: &[String], legacy: bool) -> SubscriptionChange {
        let (wanted, starred) = names_and_star(names);
        let before = self.wildcard;
        self.wildcard = match before {
            _ if starred => Wildcard::Explicit,
            Wildcard::Unasked if wanted.is_empty() && legacy => Wildcard::Legacy,
            // The legacy wildcard lasts while no name is given (S-13).
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

    /// Delta: `subscribe` comes on top, `unsubscribe` goes, and what is in both goes (S-41).
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
        // A name that was not subscribed to: no error, no response (S-38).
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

/// The names sorted and each once, and whether `*` was among them.
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
