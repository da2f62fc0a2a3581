//! Glob collections: `xdstp://authority/type/path/*` subscribes to the resources directly below a path (xRFC TP1;
//! delta only).
//!
//! A member is a name like any other while the client subscribes to its collection: its content and its removal are
//! sent. A collection without members is reported as missing, as a name is.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use oxds_types::name::{collection_of, is_collection, member_prefix};

use super::{
    client::ClientState,
    in_flight::{InFlight, SentResponse},
    pending::Pending,
    resumed::Resumed,
};
use crate::{
    sample::SAMPLE,
    snapshot::ResourceSet,
    subscription::{Sent, SubscriptionChange},
};

/// Subscribed glob collections, and the names that are subscribed only through them.
#[derive(Debug, Default)]
pub(crate) struct GlobSubscriptions {
    globs: BTreeSet<Arc<str>>,
    members: BTreeSet<Arc<str>>,
}

impl GlobSubscriptions {
    /// Whether globs and members are subscribed, and each member belongs to a glob; for debug assertions.
    pub(crate) fn is_consistent(&self, client: &ClientState) -> bool {
        let is_subscribed = |name: &Arc<str>| client.subscription().has_name(name);
        let mut globs = self.globs.iter().take(SAMPLE);
        let mut members = self.members.iter().take(SAMPLE);
        globs.all(|glob| is_collection(glob) && is_subscribed(glob))
            && members.all(|member| self.matches(member) && is_subscribed(member))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Number of names that are subscribed only through a glob.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    fn matches(&self, name: &str) -> bool {
        !self.is_empty() && collection_of(name).is_some_and(|glob| self.globs.contains(&*glob))
    }

    /// Applies a change of a delta subscription.
    pub(crate) fn resubscribe(
        &mut self,
        change: &SubscriptionChange,
        client: &mut ClientState,
        pending: &mut Pending,
        in_flight: &InFlight,
    ) {
        let added = change.added.iter().filter(|name| is_collection(name));
        let before = self.globs.len();
        self.globs.extend(added.cloned());
        if self.globs.len() > before {
            // The client subscribes to a glob again while members that it was sent before are still in flight.
            for member in in_flight.iter().flat_map(SentResponse::resources) {
                if self.matches(member.name()) {
                    self.add_member(member.name(), client, pending);
                    client.set_sent(member.name(), Some(member));
                }
            }
        }
        for name in change.repeated.iter().chain(&change.dropped) {
            self.members.remove(name);
        }
        let mut left = Vec::new();
        for name in &change.dropped {
            if self.globs.remove(name) {
                let of_glob = |member: &&Arc<str>| collection_of(member).as_deref() == Some(name);
                left.extend(self.members.iter().filter(of_glob).cloned());
            } else if self.matches(name) {
                // As S-39: the name is still subscribed through its glob, so its state is sent.
                self.add_member(name, client, pending);
            }
        }
        for member in left {
            self.remove_member(&member, client);
            pending.unsubscribe(&member);
            client.drop_exceptions(&member);
        }
    }

    /// All globs are due.
    pub(crate) fn add_all_to(&self, pending: &mut Pending) {
        pending.names.extend(self.globs.iter().cloned());
    }

    fn add_member(&mut self, name: &Arc<str>, client: &mut ClientState, pending: &mut Pending) {
        if client.add_name(name) {
            self.members.insert(Arc::clone(name));
        }
        pending.add(name);
    }

    /// A name changed that the client did not subscribe to: it may be a member of a glob.
    pub(crate) fn note_change(
        &mut self,
        name: &Arc<str>,
        client: &mut ClientState,
        pending: &mut Pending,
    ) {
        if self.matches(name) {
            self.add_member(name, client, pending);
        }
    }

    /// Replaces due globs by their members.
    pub(crate) fn expand(
        &mut self,
        current: &ResourceSet,
        client: &mut ClientState,
        pending: &mut Pending,
        resumed: &Resumed,
    ) {
        if self.is_empty() {
            return;
        }
        let due = self.globs.iter().filter(|name| pending.contains(name));
        let due: Vec<Arc<str>> = due.cloned().collect();
        for glob in due {
            let prefix = member_prefix(&glob).unwrap_or_default();
            let below = current.names_from(prefix);
            let below = below.take_while(|name| name.starts_with(prefix));
            let is_member = |name: &&Arc<str>| collection_of(name).as_deref() == Some(&*glob);
            let members: Vec<Arc<str>> = below.filter(is_member).cloned().collect();
            let state = client.subscription().get(&glob);
            let is_new = state.is_some_and(|named| named.sent() == Sent::Nothing);
            for member in &members {
                self.add_member(member, client, pending);
                if is_new {
                    client.ask_again(member);
                }
            }
            if !members.is_empty() {
                pending.unsubscribe(&glob);
                client.set_sent(&glob, None);
            }
        }
        // Members that the client has from an earlier stream may be gone.
        let reported = resumed.versions.iter().flat_map(HashMap::keys);
        let gone = reported.filter(|name| current.get(name).is_none());
        let gone: Vec<Arc<str>> = gone.map(|name| Arc::from(name.as_str())).collect();
        gone.iter()
            .for_each(|name| self.note_change(name, client, pending));
    }

    /// Forgets a member whose removal was sent.
    pub(crate) fn remove_member(&mut self, name: &Arc<str>, client: &mut ClientState) {
        if self.members.remove(name) {
            client.remove_name(name);
        }
    }
}
