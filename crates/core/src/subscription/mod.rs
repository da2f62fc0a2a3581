//! What a client asked for: one set of rules for both protocol variants.
//!
//! SotW says the whole subscription with every request, delta says what to add and what to take away; both end in the
//! same state, and both yield the same [`Change`].
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

mod collection;
mod name;

use std::{collections::BTreeMap, collections::btree_map::Entry, sync::Arc};

use oxds_types::Kind;

pub(crate) use collection::parts;
pub use collection::{collection_of, is_collection, is_of_many};
pub use name::{NameState, Sent};

/// The name that stands for all (xDS protocol, "How the client specifies what resources to return").
pub const WILDCARD: &str = "*";

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
    names: BTreeMap<Arc<str>, NameState>,
}

/// What a request changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// What happened to the subscription to everything.
    pub wildcard: Option<WildcardChange>,
    /// Names that were not subscribed to before.
    pub added: Vec<Arc<str>>,
    /// Names that were, and are asked for again: the client lost them (S-35). Delta only.
    pub repeated: Vec<Arc<str>>,
    /// Names that are not subscribed to any more.
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

/// Of this many names, one is replaced alone; more are by a new tree, which is packed besides.
const SOME: usize = 8;

/// Whether a first request without names asks for everything.
///
/// The protocol says so of LDS and CDS; Envoy relies on it for SRDS; and of kinds it does not know, oxds has nothing
/// better to assume. Of the others it must not be assumed: an empty SDS subscription is no request for all secrets.
#[must_use]
pub fn has_legacy_wildcard(kind: &Kind) -> bool {
    kind.is_full_state() || *kind == Kind::SCOPED_ROUTE || kind.short_name().is_none()
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
        self.names.contains_key(name)
    }

    /// How many names are asked for by name.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether nothing is asked for by name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names, in order, and what is known of each.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &NameState)> {
        self.names.iter()
    }

    /// What is known of a name that is asked for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NameState> {
        self.names.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut NameState> {
        self.names.get_mut(name)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut NameState)> {
        self.names.iter_mut()
    }

    /// Adds a name that nobody asked for by itself. Whether it is new.
    pub(crate) fn insert(&mut self, name: &Arc<str>) -> bool {
        let is_new = !self.names.contains_key(name);
        if is_new {
            self.names.insert(Arc::clone(name), NameState::default());
        }
        is_new
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// Keeps these names themselves as keys, so that sessions which subscribe to one resource share its name's bytes.
    /// They come in order, and are asked for.
    pub(crate) fn share_names<'a>(&mut self, names: impl Iterator<Item = &'a Arc<str>>) {
        let (_, most) = names.size_hint();
        if most.is_some_and(|most| most < self.names.len() / SOME) {
            names.for_each(|name| self.share_name(name));
            return;
        }
        let mut names = names.peekable();
        self.look_at_all(|own, _| {
            while names.next_if(|name| ***name < *own).is_some() {}
            names.next_if(|name| ***name == *own).cloned()
        });
    }

    fn share_name(&mut self, name: &Arc<str>) {
        let own = self.names.get_key_value(name).map(|(own, _)| own);
        if own.is_none_or(|own| Arc::ptr_eq(own, name)) {
            return;
        }
        if let Some(state) = self.names.remove(name) {
            self.names.insert(Arc::clone(name), state);
        }
    }

    /// Looks at every name. Where `look` returns another handle of the same name, that one becomes the key, as
    /// [`share_names`](Self::share_names) does.
    pub(crate) fn look_at_all(
        &mut self,
        mut look: impl FnMut(&str, &mut NameState) -> Option<Arc<str>>,
    ) {
        let names = std::mem::take(&mut self.names).into_iter();
        self.names = names
            .map(|(own, mut state)| (look(&own, &mut state).unwrap_or(own), state))
            .collect();
    }

    /// SotW: `names` is all that the client asks for from now on.
    pub fn replace(&mut self, names: &[String], legacy: bool) -> Change {
        let (wanted, starred) = names_and_star(names);
        let before = self.wildcard;
        self.wildcard = match before {
            _ if starred => Wildcard::Explicit,
            Wildcard::Unasked if wanted.is_empty() && legacy => Wildcard::Legacy,
            // The legacy wildcard lasts while no name is given (S-13).
            Wildcard::Legacy if wanted.is_empty() => Wildcard::Legacy,
            _ => Wildcard::None,
        };

        let mut change = Change {
            wildcard: self.compare(before),
            ..Change::default()
        };
        self.names.retain(|name, _| {
            let stays = wanted.binary_search(&&**name).is_ok();
            if !stays {
                change.dropped.push(Arc::clone(name));
            }
            stays
        });
        for name in wanted {
            if !self.names.contains_key(name) {
                let name: Arc<str> = name.into();
                self.names.insert(Arc::clone(&name), NameState::default());
                change.added.push(name);
            }
        }
        change
    }

    /// Delta: `subscribe` comes on top, `unsubscribe` goes, and what is in both goes (S-41).
    pub fn update(&mut self, subscribe: &[String], unsubscribe: &[String], legacy: bool) -> Change {
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

        let mut change = Change {
            wildcard: self.compare(before),
            ..Change::default()
        };
        if change.wildcard.is_none() && starred && self.is_wildcard() {
            change.wildcard = Some(WildcardChange::Repeated);
        }
        wanted.retain(|name| unwanted.binary_search(name).is_err());
        if self.names.is_empty() {
            // At once: a tree that is made of sorted names is packed, one that they are added to is half empty.
            change.added = wanted.drain(..).map(Arc::from).collect();
            let added = change.added.iter().map(Arc::clone);
            self.names = added.map(|name| (name, NameState::default())).collect();
        }
        for name in wanted {
            match self.names.entry(name.into()) {
                Entry::Occupied(known) => change.repeated.push(Arc::clone(known.key())),
                Entry::Vacant(vacant) => {
                    change.added.push(Arc::clone(vacant.key()));
                    vacant.insert(NameState::default());
                }
            }
        }
        // A name that was not subscribed to: no error, no response (S-38).
        let dropped = unwanted
            .into_iter()
            .filter_map(|name| self.names.remove_entry(name));
        change.dropped = dropped.map(|(name, _)| name).collect();
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
