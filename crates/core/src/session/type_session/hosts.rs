//! On-demand virtual hosts (VHDS): a name that no virtual host has is the request for the one that its host selects.
//!
//! That virtual host is a name like any other while the client asks for it: its content and its removal are sent. Its
//! elements have the requested names as aliases, for which Envoy waits. A name that selects none is reported as
//! missing.

use std::{collections::BTreeSet, sync::Arc};

use super::{client::ClientState, in_flight::Item, pending::Pending};
use crate::{
    sample::SAMPLE,
    snapshot::TypeSnapshot,
    subscription::{Sent, SubscribedName, SubscriptionChange},
    vhds::{HostAliases, split, without_port},
};

/// Requested names with the virtual hosts that answer them, and the virtual hosts that are subscribed only so.
#[derive(Debug, Default)]
pub(crate) struct HostRequests {
    aliases: HostAliases,
    members: BTreeSet<Arc<str>>,
}

impl HostRequests {
    /// Whether the invariants hold; for debug assertions.
    pub(crate) fn is_consistent(&self, client: &ClientState) -> bool {
        let mut members = self.members.iter().take(SAMPLE);
        members.all(|name| client.subscription().has_name(name)) && self.aliases.is_consistent()
    }

    /// Number of names that are subscribed only through others.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// The requested names that this virtual host answers, if there are any.
    pub(crate) fn aliases(&self, item: &Item) -> Vec<Arc<str>> {
        self.aliases.of(item.name()).cloned().collect()
    }

    /// Applies a change of the subscription.
    pub(crate) fn resubscribe(
        &mut self,
        change: &SubscriptionChange,
        client: &mut ClientState,
        pending: &mut Pending,
    ) {
        for name in &change.repeated {
            self.members.remove(name);
        }
        for name in &change.dropped {
            self.members.remove(name);
            if self.aliases.of(name).next().is_some() {
                // As S-39: the virtual host still answers other names.
                self.add_member(name, client, pending);
            }
            let host = self.aliases.remove(name);
            let unused = host.filter(|host| self.aliases.of(host).next().is_none());
            if let Some(host) = unused.filter(|host| self.members.remove(host)) {
                client.remove_name(&host);
                pending.unsubscribe(&host);
                client.drop_exceptions(&host);
            }
        }
    }

    /// The client has these virtual hosts from an earlier stream, and they are gone.
    pub(crate) fn resume<'a>(
        &mut self,
        gone: impl Iterator<Item = &'a String>,
        client: &mut ClientState,
        pending: &mut Pending,
    ) {
        gone.for_each(|name| self.add_member(&name.as_str().into(), client, pending));
    }

    /// This virtual host changed: other ones may answer the names of its route configuration now.
    pub(crate) fn note_change(&self, name: &str, client: &ClientState, pending: &mut Pending) {
        let routes = split(name).map(|(routes, _)| routes);
        let asked = client.subscription().iter().map(SubscribedName::name);
        let same = |asked: &&Arc<str>| split(asked).map(|(routes, _)| routes) == routes;
        pending.names.extend(asked.filter(same).cloned());
    }

    /// Replaces due names that no virtual host has by the virtual hosts that they select.
    pub(crate) fn expand(
        &mut self,
        head: &TypeSnapshot,
        ignores_port: impl Fn(&str) -> bool,
        client: &mut ClientState,
        pending: &mut Pending,
    ) {
        let all = client.subscription().iter().map(SubscribedName::name);
        let due = all.filter(|name| pending.contains(name) && !self.members.contains(*name));
        let due: Vec<Arc<str>> = due.cloned().collect();
        for asked in due {
            let find = || {
                // Stored under this name: the name itself is due.
                let (routes, host) =
                    split(&asked).filter(|_| head.collection().get(&asked).is_none())?;
                let found = match without_port(host).filter(|_| ignores_port(routes)) {
                    Some(host) => head.virtual_host(routes, host),
                    None => head.virtual_host(routes, host),
                };
                found.cloned()
            };
            match find() {
                Some(host) => self.answer(&asked, &host, client, pending),
                // It is reported as missing, once.
                None if self.aliases.remove(&asked).is_some() => client.ask_again(&asked),
                None => {}
            }
        }
    }

    /// Lets a virtual host answer a requested name. It is sent again if the name is new, or had another answer.
    fn answer(
        &mut self,
        asked: &Arc<str>,
        host: &Arc<str>,
        client: &mut ClientState,
        pending: &mut Pending,
    ) {
        let state = client.subscription().get(asked);
        let is_asked = state.is_some_and(|named| named.sent() == Sent::Nothing);
        let is_new = is_asked || self.aliases.host(asked) != Some(host);
        // The client keeps what answered before, so that stays subscribed.
        self.aliases.set(asked, host);
        if is_new {
            self.add_member(host, client, pending);
            client.ask_again(host);
        }
        pending.unsubscribe(asked);
        client.set_sent(asked, None);
    }

    fn add_member(&mut self, name: &Arc<str>, client: &mut ClientState, pending: &mut Pending) {
        if client.add_name(name) {
            self.members.insert(Arc::clone(name));
        }
        pending.add(name);
    }

    /// Forgets a virtual host whose removal was sent.
    pub(crate) fn remove_member(&mut self, name: &Arc<str>, client: &mut ClientState) {
        if self.members.remove(name) {
            client.remove_name(name);
        }
    }
}
