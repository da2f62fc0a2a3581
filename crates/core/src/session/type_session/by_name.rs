//! The next response of one type to a client that subscribes by name.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use oxds_types::ResourceType;

use super::{
    TypeSession,
    gate::{self, OldCopies, Peers},
    in_flight::{Item, Items},
    plan::{Base, ResponsePlan},
};
use crate::{
    snapshot::{Resource, TypeSnapshot},
    subscription::Verdict,
    time::Instant,
    vhds::ignores_port,
};

/// State of a name after it was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planned {
    /// Nothing is due any more, or an item was added.
    Done,
    /// The removal of the resource is held.
    Held,
    /// The update of the resource waits for a dependency.
    Waits,
}

impl TypeSession {
    /// The next response to a client that subscribes by name, unless it has to wait.
    pub(super) fn plan_names(
        &mut self,
        now: Instant,
        peers: &Peers<'_, Self>,
    ) -> Option<ResponsePlan> {
        self.note_changes(peers.head);
        let (client, pending) = (&mut self.client, &mut self.pending);
        let current = peers.head.collection();
        self.globs.expand(current, client, pending, &self.resumed);
        if self.context.has_aliases() {
            let reported = self.resumed.versions.iter().flat_map(HashMap::keys);
            let gone = reported.filter(|name| current.get(name).is_none());
            self.hosts.resume(gone, client, pending);
        }
        self.resume_names(now, peers);
        if self.context.has_aliases() {
            let config = |routes: &str| peers.snapshot.get(&ResourceType::ROUTE, routes);
            let ignores_port =
                |routes: &str| config(routes).is_some_and(|one| ignores_port(&one.value()));
            let (client, pending) = (&mut self.client, &mut self.pending);
            self.hosts.expand(peers.head, ignores_port, client, pending);
        }
        let before = self
            .context
            .is_full_state()
            .then(|| self.pending.names.clone());
        let all_names = self.pending.all_names;
        let (items, waits) = self.plan_due(now, peers);
        let Some(names) = before else {
            // An answer that is due waits for the updates that it is about.
            let is_due = self.pending.answer && !waits;
            return Some(ResponsePlan::new(current, Base::None, items, is_due));
        };
        // S-52: on a new stream, an answer without a cluster would remove the client's copy, which a route may use.
        let is_first = self.record.sent.is_none() && !self.resumed.fresh;
        let mut missing = items.iter().filter(|item| item.resource().is_none());
        let missing = is_first && self.context.is_cluster() && missing.next().is_some();
        if self.resumed.first_answer_waits(now, missing, false, peers) || waits {
            (self.pending.names, self.pending.all_names) = (names, all_names);
            return None;
        }
        if items.is_empty() && !self.pending.answer {
            return None;
        }
        // SotW, LDS and CDS: all subscribed names, as soon as there is news about one (S-6). xDS protocol, "Resource
        // hints": an absent listener or cluster is deleted.
        let mut plan = ResponsePlan::of_names(&self.client, current);
        let updates = items.iter().filter_map(Item::resource);
        plan.assignments = self.context.assignments(updates);
        Some(plan)
    }

    /// Adds names that changed since the last look to the due ones: from the log if that is shorter than the
    /// subscription, else all.
    fn note_changes(&mut self, head: &TypeSnapshot) {
        let revision = head.collection().revision();
        if revision == self.pending.seen {
            return;
        }
        let changed = head.changed_since(self.pending.seen);
        self.pending.seen = revision;
        if self.pending.all_names {
            return;
        }
        // A name that changed repeatedly is in the log repeatedly, so only as many entries as there are names are
        // worth reading.
        if let Some(mut changed) = changed {
            for name in changed.by_ref().take(self.client.subscription().len()) {
                let (client, pending) = (&mut self.client, &mut self.pending);
                if self.context.has_aliases() {
                    self.hosts.note_change(name, client, pending);
                }
                if client.subscription().has_name(name) {
                    pending.add(name);
                } else {
                    self.globs.note_change(name, client, pending);
                }
            }
            if changed.next().is_none() {
                return;
            }
        }
        self.pending.all_names = !self.client.subscription().is_empty();
    }

    /// Delta, new stream: resources whose reported version is current are not sent (S-42, S-43).
    fn resume_names(&mut self, now: Instant, peers: &Peers<'_, Self>) {
        let Some(reported) = self.resumed.versions.take() else {
            return;
        };
        let mut current = peers.head.collection().ascending();
        let mut gone = BTreeSet::new();
        for at in 0..self.client.subscription().len() {
            let named = self.client.subscription().at(at);
            let reported = named.and_then(|named| reported.get_key_value(&**named.name()));
            let Some((name, version)) = reported else {
                continue;
            };
            match current.get(name) {
                Some(resource) if resource.version() == **version => {
                    self.client.set_in_sync(at, resource);
                    self.resume_heartbeats(resource.ttl());
                }
                Some(_) => {}
                None => drop(gone.insert(Arc::from(name.as_str()))),
            }
        }
        let due = self.resumed.remove(now, &self.context, gone, peers);
        self.pending.names.extend(due);
    }

    /// Items for the due names (S-7 … S-11, S-34), and whether some wait for a dependency. Names that wait, or whose
    /// removal is held, stay due.
    fn plan_due(&mut self, now: Instant, peers: &Peers<'_, Self>) -> (Items, bool) {
        let mut current = peers.head.collection().ascending();
        let (mut due, is_all) = self.pending.take_names();
        let len = if is_all {
            self.client.subscription().len()
        } else {
            0
        };
        let mut items = Items::with_capacity(len);
        let mut plan = |session: &mut Self, at: usize| -> Option<Arc<str>> {
            let name = Arc::clone(session.client.subscription().at(at)?.name());
            let planned = session.plan_name(now, at, current.get(&name), peers, &mut items);
            (planned != Planned::Done).then_some(name)
        };
        if is_all {
            due.clear();
            due.extend((0..len).filter_map(|at| plan(self, at)));
        } else {
            due.retain(|name| {
                let at = self.client.subscription().position(name);
                at.is_some_and(|at| plan(self, at).is_some())
            });
        }
        // The set is reused, so that a client of one name costs no allocation per update.
        self.pending.names = due;
        let waits = self.gate.decide(now, &self.context, peers.head);
        (items, waits)
    }

    /// Adds an item for the name at a place of the subscription, unless it is up to date or has to wait.
    fn plan_name(
        &mut self,
        now: Instant,
        at: usize,
        current: Option<&Arc<Resource>>,
        peers: &Peers<'_, Self>,
        items: &mut Items,
    ) -> Planned {
        let Some(named) = self.client.subscription().at(at) else {
            return Planned::Done;
        };
        let name = Arc::clone(named.name());
        let mut verdict = named.verdict(current);
        // The copy is due again after a NACK, and the full state repeats it until its hold ends (S-52).
        if matches!(verdict, Verdict::Missing)
            && self.context.is_full_state()
            && let Some(held) = self.client.held().get(&name)
        {
            verdict = Verdict::Gone(Arc::clone(&held.resource));
        }
        match &verdict {
            Verdict::UpToDate => {
                self.client.release(&name);
                return Planned::Done;
            }
            Verdict::Send(resource) => {
                // xDS protocol, "Eventual consistency considerations": routes are not warmed, so their clusters come
                // first (S-51).
                let copies = OldCopies {
                    client: &self.client,
                    is_fresh: self.resumed.fresh,
                };
                if self.gate.lacks_dependency(resource, copies, peers) {
                    return Planned::Waits;
                }
                items.push(Item::Resource(Arc::clone(resource)));
                return Planned::Done;
            }
            // S-52: its removal is sent once the types that may use it are answered.
            Verdict::Missing if self.resumed.has_removal(&name) => return Planned::Done,
            Verdict::Gone(sent)
                if (self.context.is_delta() || self.context.is_full_state())
                    && gate::removal_waits(now, sent, &self.context, &mut self.client, peers) =>
            {
                return Planned::Held;
            }
            Verdict::Gone(_) if self.context.is_full_state() => {
                self.client.release(&name);
            }
            Verdict::Missing | Verdict::Gone(_) => {}
        }
        if self.context.hides_absence() {
            // xDS protocol, "Deleting resources": SotW can express it for LDS and CDS only. Nothing is sent.
            self.client.note_absent(at);
            return Planned::Done;
        }
        items.push(self.absence(name, &verdict, peers.head));
        Planned::Done
    }

    /// Item for a name that is not served, with the reason if the store has it in an invalid form (S-73), the client
    /// has no copy, and it reads the reason.
    fn absence(&self, name: Arc<str>, verdict: &Verdict<'_>, head: &TypeSnapshot) -> Item {
        let context = &self.context;
        let is_new = matches!(verdict, Verdict::Missing);
        let reads = context.reads_errors && !context.has_aliases();
        let fault = || head.fault(&context.resource_type, &name);
        let reason = (is_new && reads).then(fault).flatten();
        match reason {
            Some(reason) => Item::Invalid(name, reason),
            None => Item::Absent(name),
        }
    }
}
