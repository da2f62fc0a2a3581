//! The next response of one type: plan, encode, and record what was sent.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use oxds_types::{ResourceType, Version};

use super::{
    TypeSession,
    cursor::{Cursor, Step},
    encode,
    gate::{self, OldCopies, Peers},
    in_flight::{Item, Items, KeptCopies, SentContent},
    plan::{Base, ResponsePlan},
};
use crate::{
    response::ResponseBuilder,
    snapshot::{Resource, ResourceSet, Revision, TypeSnapshot},
    subscription::Verdict,
    time::Instant,
    vhds::ignores_port,
};

/// A response before it has a nonce.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) response: ResponseBuilder,
    pub(crate) version: Version,
    pub(crate) content: SentContent,
    pub(crate) kept: KeptCopies,
    /// Assignments to send again, since their clusters change with this response (S-54).
    pub(crate) assignments: Vec<Arc<str>>,
    /// See [`SentResponse::covers`](super::SentResponse).
    pub(crate) covers: Option<Revision>,
}

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
    /// The next response, if content is due and may be sent now.
    pub(crate) fn poll(&mut self, now: Instant, peers: &Peers<'_, Self>) -> Option<Draft> {
        let is_idle = self.in_flight.is_empty();
        // xDS protocol, "When to send an update": a client answers each response, so the next waits for that answer.
        // One response of a type at a time, so that a slow client costs one cursor; but new names are sent at once
        // (S-16, S-44).
        if !is_idle && (!self.pending.urgent || self.in_flight.is_full()) {
            return None;
        }
        if is_idle {
            self.repeat_assignments();
            self.send_next_round(peers.head);
            self.start_full_state_heartbeat(now);
            let removals = self.resumed.due_removals(&self.context, peers);
            self.pending.names.extend(removals);
        }
        // Resources go first; reasons of denied names and heartbeats follow when nothing else is due.
        let draft = self.poll_resources(now, peers);
        self.pending.urgent = false;
        if let Some(mut draft) = draft {
            self.pending.answer = false;
            let (response, limit) = (&mut draft.response, peers.head.body_limit());
            self.denied.write(&self.context, response, limit);
            return Some(draft);
        }
        is_idle
            .then(|| self.poll_without_resources(now, peers.head))
            .flatten()
    }

    /// S-54: a cluster changed, so its assignment is due again, changed or not.
    fn repeat_assignments(&mut self) {
        for name in std::mem::take(&mut self.pending.assignments) {
            // Content that the client NACKed would be NACKed again.
            if self.client.nacked().contains_key(&name) {
                continue;
            }
            if !self.client.is_wildcard() {
                self.client.ask_again(&name);
            }
            self.pending.add(&name);
        }
    }

    fn poll_resources(&mut self, now: Instant, peers: &Peers<'_, Self>) -> Option<Draft> {
        while let Some(part) = self.next_part() {
            if let Some(draft) = self.send(part, peers.head) {
                return Some(draft);
            }
        }
        let plan = if self.client.is_wildcard() {
            self.plan_wildcard(now, peers)
        } else {
            self.plan_names(now, peers)
        };
        self.send(plan?, peers.head)
    }

    /// Delta: the next part of a split response (S-50). A part is of the step that was planned, not of the current
    /// state: later changes follow as a step of their own.
    fn next_part(&mut self) -> Option<ResponsePlan> {
        let cursor = self.client.cursor_mut()?;
        let base = Base::Part(cursor.unsent.take()?);
        let to = cursor.sent.as_ref()?;
        Some(ResponsePlan::new(to, base, Items::new(), false))
    }

    fn plan_wildcard(&mut self, now: Instant, peers: &Peers<'_, Self>) -> Option<ResponsePlan> {
        let to = peers.head.collection();
        if self.recall_version(peers.head) {
            return None;
        }
        let mut step = self.client.cursor()?.step(peers.head);
        // S-52: over SotW, absence is removal.
        let is_first = self.record.sent.is_none() && self.context.is_full_state();
        let removes = is_first && self.context.is_cluster() && step.removals().next().is_some();
        if self.resumed.first_answer_waits(now, false, removes, peers) {
            return None;
        }
        let (context, client) = (&self.context, &mut self.client);
        let updates = step.updates(to);
        let copies = OldCopies {
            client,
            is_fresh: self.resumed.fresh,
        };
        if self.gate.updates_wait(now, context, copies, updates, peers) {
            return None;
        }
        // xDS protocol, "Eventual consistency considerations": make before break. Removals wait for their users
        // (S-52).
        let released = gate::release_removals(context, client, &mut self.recent, peers);
        let replaced = gate::hold_removals(now, &step, context, client, peers);
        if !self.context.is_delta() {
            return self.plan_full_state(to, step, released, replaced);
        }
        // xDS protocol, "Incremental xDS": a reconnecting client reports its versions, so that only differences are
        // sent (S-42).
        if matches!(step, Step::Everything)
            && let Some(versions) = self.resumed.versions.take()
        {
            self.resume_wildcard(now, &versions, peers);
            step = Step::InSync;
        }
        Some(self.plan_step(to, step, released, replaced))
    }

    /// SotW, new stream: continues at the state whose version the client reports, if that is still known. Returns
    /// whether it is the current one, so that no answer is due.
    fn recall_version(&mut self, head: &TypeSnapshot) -> bool {
        let (to, cursor) = (head.collection(), self.client.cursor_mut());
        let cursor = cursor.filter(|cursor| cursor.sent.is_none());
        let (Some(cursor), Some(reported)) = (cursor, &self.resumed.whole_version) else {
            return false;
        };
        let version = to.version();
        if version != **reported {
            // S-52: what it has, and what to remove, is known.
            if let Some(state) = head.at_version(reported) {
                *cursor = Cursor::in_sync(state);
                self.resumed.forget_versions();
                if self.context.is_cluster() {
                    self.recent.note_returned();
                }
            }
            return false;
        }
        // The version is a hash of all content, so equal versions mean equal content (S-24). Resources that have a
        // TTL must be confirmed, which over SotW needs the full state (S-49).
        if self.context.form.ttl && to.has_ttl() {
            return false;
        }
        *cursor = Cursor::in_sync(to);
        self.resumed.forget_versions();
        self.pending.answer = false;
        self.pending.take_names();
        (self.record.sent, self.record.acked) = (Some(version), Some(version));
        true
    }

    /// Delta, new stream: due are names whose reported version is not the current one, and removals (S-42).
    fn resume_wildcard(
        &mut self,
        now: Instant,
        reported: &HashMap<String, String>,
        peers: &Peers<'_, Self>,
    ) {
        let to = peers.head.collection();
        let version = |one: &Resource| reported.get(&**one.name());
        let differs = |one: &&Arc<Resource>| version(one).is_none_or(|v| one.version() != **v);
        let differing = to.iter().filter(differs);
        self.pending
            .names
            .extend(differing.map(|one| Arc::clone(one.name())));
        let gone = reported.keys().filter(|name| to.get(name).is_none());
        let gone = gone.map(|name| Arc::from(name.as_str())).collect();
        let due = self.resumed.remove(now, &self.context, gone, peers);
        self.pending.names.extend(due);
        self.resume_heartbeats(to.ttls());
    }

    /// SotW: everything, and copies that the client keeps (S-1, S-3 … S-5). `None` if it would carry no news.
    fn plan_full_state(
        &mut self,
        to: &Arc<ResourceSet>,
        step: Step,
        released: Vec<Arc<str>>,
        replaced: Vec<Arc<Resource>>,
    ) -> Option<ResponsePlan> {
        let has_names = self.pending.has_names();
        let is_asked = self.pending.answer || has_names || matches!(step, Step::Everything);
        let has_news = !released.is_empty() || !step.is_empty();
        let changes_a_ttl = self.context.form.ttl && step.changes_a_ttl();
        let mut plan = ResponsePlan::of_all(&self.client, to, step);
        let cursor = self.client.cursor_mut()?;
        // Changes of NACKed resources only may add up to the state that was sent last.
        let same = cursor.version == Some(plan.version) && !changes_a_ttl;
        if !is_asked && (!has_news || same) {
            cursor.advance(to);
            return None;
        }
        self.pending.take_names();
        (plan.kept.replaced, plan.kept.released) = (replaced, released);
        Some(plan)
    }

    /// Delta: changes since the cursor, holds that ended, and names that are due whatever the cursor says (S-35,
    /// S-39).
    fn plan_step(
        &mut self,
        to: &Arc<ResourceSet>,
        step: Step,
        released: Vec<Arc<str>>,
        replaced: Vec<Arc<Resource>>,
    ) -> ResponsePlan {
        let client = &self.client;
        let is_held = |name: &Arc<str>| client.held().contains_key(name);
        let mut assignments = Vec::new();
        match &step {
            // On a new stream, due are the names that differ from what the client reported.
            Step::InSync if self.record.sent.is_none() => {
                let due = self.pending.names.iter().filter_map(|name| to.get(name));
                assignments = self.context.assignments(due);
            }
            Step::InSync => {}
            Step::Since(_) => self
                .pending
                .names
                .retain(|name| !step.has(name) || is_held(name)),
            // S-28: no name twice. Resources come with the base, removals do not.
            Step::Everything => self.pending.names.retain(|name| to.get(name).is_none()),
        }
        let shares_removals = !step.removals().any(is_held);
        // Removals that are held for this client are not part of the response, so it cannot share the others.
        let own = step.removals().filter(|name| !is_held(name));
        let own = own.filter(|_| !shares_removals);
        let mut items: Items = own.cloned().map(Item::Removed).collect();
        let due = self.pending.take_names().0;
        let due = due.into_iter().filter(|name| !released.contains(name));
        let due = due.map(|name| match to.get(&name) {
            Some(resource) => Item::Resource(Arc::clone(resource)),
            None => Item::Removed(name),
        });
        let due: Items = due.collect();
        items.extend(released.into_iter().map(Item::Removed));
        items.extend(due);
        let base = Base::Step {
            step,
            shares_removals,
        };
        let mut plan = ResponsePlan::new(to, base, items, self.pending.answer);
        plan.kept.replaced = replaced;
        plan.assignments = assignments;
        plan
    }

    /// Encodes a plan and records what it sends. Items without room become due again. `None` if the response would be
    /// empty and need not be sent.
    fn send(&mut self, plan: ResponsePlan, head: &TypeSnapshot) -> Option<Draft> {
        let (to, mut items, context) = (plan.to, plan.items, &self.context);
        let mut response = ResponseBuilder::new(context.form.protocol);
        let (step, part, unsent) = encode::push_base(&mut response, head, context.form, plan.base);
        // S-50: a full state cannot be split, since a resource that is left out of it is removed.
        let is_whole = context.is_full_state() || !context.is_delta() && step.is_some();
        let limit = if is_whole {
            usize::MAX
        } else {
            head.body_limit()
        };
        let (hosts, pending) = (&self.hosts, &mut self.pending);
        encode::push_items(context, hosts, &mut response, &mut items, limit, pending);
        let completes = unsent.is_none() && !self.pending.has_names();
        let is_skipped = response.is_empty() && !plan.is_due;
        if let Some(cursor) = self.client.cursor_mut() {
            cursor.unsent = unsent;
            if is_skipped {
                cursor.advance(&to);
            } else {
                (cursor.sent, cursor.version) = (Some(Arc::clone(&to)), Some(plan.version));
            }
        }
        if is_skipped {
            return None;
        }
        items.retain(|item| item.is_news());
        let mut assignments = plan.assignments;
        if is_whole {
            // S-54: the assignments that were sent with the NACKed response came before their clusters.
            assignments.extend(context.assignments(self.client.sent_again(&to)));
            self.client.supersede_nacked(&to);
        }
        self.note_items(step.is_some(), &items);
        let content = match step {
            None => SentContent::Names(items),
            Some(step) => SentContent::Whole {
                to,
                completes,
                step,
                part,
                extra: items,
                is_left: false,
            },
        };
        assignments.extend(content.changed_assignments(&self.context));
        Some(Draft {
            response,
            version: plan.version,
            covers: self.covered(&content, head),
            content,
            kept: plan.kept,
            assignments,
        })
    }

    /// Returns the revision that the client has as a whole once it has this content; `None` if more is left to send.
    fn covered(&self, content: &SentContent, head: &TypeSnapshot) -> Option<Revision> {
        let revision = match content {
            SentContent::Whole { to, completes, .. } => completes.then(|| to.revision())?,
            SentContent::Names(_) => head.collection().revision(),
        };
        let mut held = self.client.held().values();
        let is_complete = self.pending.is_quiet() && held.all(|held| held.timer.expired);
        is_complete.then_some(revision)
    }

    /// Records that these items are sent.
    fn note_items(&mut self, to_wildcard: bool, items: &[Item]) {
        if !to_wildcard {
            self.client.note_items_sent(items);
        }
        for gone in items.iter().filter(|item| item.resource().is_none()) {
            if to_wildcard {
                self.client.release(gone.name());
            } else {
                self.globs.remove_member(gone.name(), &mut self.client);
                self.hosts.remove_member(gone.name(), &mut self.client);
            }
        }
    }
}

// Clients that subscribe by name.
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

// Responses without a plan.
impl TypeSession {
    /// Reasons of denied names if some are due, or else heartbeats: their answers change nothing that is known about
    /// resources.
    fn poll_without_resources(&mut self, now: Instant, head: &TypeSnapshot) -> Option<Draft> {
        let (context, limit) = (&self.context, head.body_limit());
        let mut response = ResponseBuilder::new(context.form.protocol);
        self.denied.write(context, &mut response, limit);
        let mut version = self.record.sent;
        if response.is_empty() {
            // SotW: a heartbeat carries the version of the response that the client accepted last. A client that
            // accepted none would not take it for a heartbeat, and is sent the resource instead.
            version = self.record.acked.filter(|_| !context.is_delta());
            let (client, response) = (&self.client, &mut response);
            self.heartbeats
                .write(now, context, client, version, response, limit);
        }
        (!response.is_empty()).then(|| Draft {
            response,
            version: version.unwrap_or(head.collection().version()),
            content: SentContent::Names(Items::new()),
            kept: KeptCopies::default(),
            assignments: Vec::new(),
            covers: None,
        })
    }

    /// SotW full state: a due heartbeat is the whole state, since a response without the other resources would remove
    /// them.
    fn start_full_state_heartbeat(&mut self, now: Instant) {
        if !self.context.form.ttl || !self.is_whole_state() {
            return;
        }
        for (ttl, _) in self.heartbeats.take_due() {
            if self.client.with_ttl(ttl, "").next().is_some() {
                self.pending.answer = true;
                // Counted from now: copies that replace NACKed content are in the state, but start no timer.
                self.heartbeats.start(now, ttl);
            }
        }
    }

    /// The client has resources with these TTLs from an earlier stream.
    pub(super) fn resume_heartbeats(&mut self, ttls: impl IntoIterator<Item = Duration>) {
        let ttls = ttls.into_iter().filter(|_| self.context.form.ttl);
        ttls.for_each(|ttl| self.heartbeats.start_due(ttl));
    }
}
