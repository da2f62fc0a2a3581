//! Collections: `xdstp://authority/type/path/*` names what is directly below a path (xRFC TP1; delta only).
//!
//! A member is a name like any other, as long as the client asks for its collection: it is told of it, and of its
//! removal. A collection without members is told to be missing, as a name is.

use std::{collections::BTreeSet, sync::Arc};

use super::{Watch, response::Outstanding, subscribe::Claims};
use oxds_types::name::{collection_of as of, is_collection, member_prefix};

use crate::{
    snapshot::{Protocol, ResourceSet},
    subscription::{self, Sent},
};

/// Collections that are asked for, and what is asked for only through them.
#[derive(Debug, Default)]
pub(super) struct Collections {
    names: BTreeSet<Arc<str>>,
    members: BTreeSet<Arc<str>>,
}

impl Collections {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many names are asked for only through a collection.
    pub(super) fn members(&self) -> usize {
        self.members.len()
    }

    fn hold(&self, name: &str) -> bool {
        !self.is_empty() && of(name).is_some_and(|collection| self.names.contains(&*collection))
    }
}

impl Watch {
    /// Whether a change of any name may concern the client.
    pub(in crate::session) fn wants_all(&self) -> bool {
        self.subscription.is_wildcard() || !self.collections.is_empty()
    }

    /// The client asks for collections, or not any more.
    pub(super) fn resubscribe_collections(&mut self, change: &subscription::SubscriptionChange) {
        if self.form.protocol != Protocol::Delta {
            return;
        }
        let added = change.added.iter().filter(|name| is_collection(name));
        let before = self.collections.names.len();
        self.collections.names.extend(added.cloned());
        if self.collections.names.len() > before {
            self.note_under_way();
        }
        for name in change.repeated.iter().chain(&change.dropped) {
            self.collections.members.remove(name);
        }
        let mut left = Vec::new();
        for name in &change.dropped {
            if self.collections.names.remove(name) {
                let members = self.collections.members.iter();
                left.extend(
                    members
                        .filter(|m| of(m).as_deref() == Some(&**name))
                        .cloned(),
                );
            } else if self.collections.hold(name) {
                // It comes through its collection still: the client is told what it is (as S-39).
                self.imply(name);
            }
        }
        for member in left {
            self.forget_member(&member);
            self.due.remove(&member);
            self.again.remove(&member);
            self.held.remove(&member);
            self.record.rejections.remove(&member);
        }
    }

    /// The client has let go of a collection, and asks for it again before it has seen what it was sent of it.
    fn note_under_way(&mut self) {
        let under_way = self.outstanding.iter().flat_map(Outstanding::resources);
        let members = under_way.filter(|one| self.collections.hold(one.name()));
        let members: Vec<_> = members.cloned().collect();
        for member in members {
            self.imply(member.name());
            if let Some(named) = self.subscription.get_mut(member.name()) {
                named.tell(Some(&member));
            }
        }
    }

    /// Every collection is to be looked through.
    pub(super) fn due_collections(&mut self) {
        self.due.extend(self.collections.names.iter().cloned());
    }

    fn imply(&mut self, name: &Arc<str>) {
        if self.subscription.insert(name) {
            self.collections.members.insert(Arc::clone(name));
        }
        self.due.insert(Arc::clone(name));
    }

    /// A name changed that the client did not ask for: it may be in a collection.
    pub(super) fn note_member(&mut self, name: &Arc<str>) {
        if self.collections.hold(name) {
            self.imply(name);
        }
    }

    /// The members of the collections that are due, instead of them.
    pub(super) fn expand_collections(&mut self, there_is: &ResourceSet) {
        if self.collections.is_empty() {
            return;
        }
        let due = self
            .collections
            .names
            .iter()
            .filter(|name| self.has_due(name));
        let due: Vec<Arc<str>> = due.cloned().collect();
        for collection in due {
            let members: Vec<Arc<str>> = members(there_is, &collection).cloned().collect();
            let state = self.subscription.get_mut(&collection);
            let is_asked = state.is_some_and(|named| named.sent() == Sent::Nothing);
            for member in &members {
                self.imply(member);
                if let Some(named) = self.subscription.get_mut(member).filter(|_| is_asked) {
                    named.ask_again();
                }
            }
            if !members.is_empty() {
                self.due.remove(&collection);
                if let Some(named) = self.subscription.get_mut(&collection) {
                    named.tell(None);
                }
            }
        }
        // What the client has of a collection from an earlier stream may be gone by now.
        let claimed = match &self.claims {
            Some(Claims::Resources(claimed)) => claimed.keys(),
            _ => return,
        };
        let gone =
            claimed.filter(|name| there_is.get(name).is_none() && self.collections.hold(name));
        let gone: Vec<Arc<str>> = gone.map(|name| Arc::from(name.as_str())).collect();
        gone.iter().for_each(|name| self.imply(name));
    }

    /// The name, if it is asked for only through a collection.
    pub(super) fn member(&self, name: &Arc<str>) -> Option<Arc<str>> {
        self.collections.members.get(name).cloned()
    }

    /// The client was told that a member is gone.
    pub(super) fn forget_member(&mut self, name: &Arc<str>) {
        if self.collections.members.remove(name) {
            self.subscription.forget(name);
        }
    }
}

/// The names in a collection, in order.
fn members<'a>(
    there_is: &'a ResourceSet,
    collection: &'a str,
) -> impl Iterator<Item = &'a Arc<str>> {
    let prefix = member_prefix(collection).unwrap_or_default();
    there_is
        .names_from(prefix)
        .take_while(move |name| name.starts_with(prefix))
        .filter(move |name| of(name).as_deref() == Some(collection))
}
