//! The order in which a client gets a change: a session of the server, with a model of a client.
//!
//! ```text
//!   old state ──▶ Session ◀──▶ Client   until all is accepted
//!   new state ──▶ Session ◀──▶ Client   each response is a step; each hold is noted with what it waits for
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use prost::Message as _;

use super::change::ChangeKind;
use super::client::Client;
use super::relevant::relevant;
use super::state::Resources;
use crate::session::{
    Config, Event, HeldChange, OverdueChange, Scope, Session, TransmitResponse, WaitsFor,
};
use crate::snapshot::{ChangeSet, Protocol, ResourceKey, Snapshot};
use crate::time::Instant;

/// Time after which a client has forgotten what was news to it.
const LONG: Duration = Duration::from_secs(3600);
/// Largest number of turns: each sends a response or lets a timer end, so a simulation that needs more does not end.
const MAX_TURNS: usize = 100_000;

/// The responses that bring a change to a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sending {
    /// The responses, in their order.
    pub steps: Vec<Step>,
    /// Changed resources that the client does not ask for, because nothing that it has refers to them.
    pub not_requested: Vec<ResourceKey>,
    /// Time until the last response, if every answer of the client takes no time: hold timers that have to end.
    pub delay: Duration,
    /// Whether the client has everything after the last step.
    pub is_complete: bool,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Type of the resources.
    pub resource_type: ResourceType,
    /// The resources, by name.
    pub resources: Vec<SentResource>,
    /// Removed names.
    pub removed: Vec<Arc<str>>,
    /// Reasons why the response was not sent earlier, in the order in which they held it.
    pub after: Vec<Why>,
}

/// A resource of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentResource {
    /// Name of the resource.
    pub name: Arc<str>,
    /// The change; `None`: none, the client gets it again, or gets it because it asks for it now.
    pub change: Option<ChangeKind>,
}

/// Reason why a change is held back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Why {
    /// Type of the resource that is waited for.
    pub resource_type: ResourceType,
    /// Name of that resource; `None`: the first answer of the type.
    pub name: Option<Arc<str>>,
    /// Whether it does not exist. The hold timer ends the wait.
    pub missing: bool,
    /// Whether the hold timer ended the wait (S-53).
    pub overdue: bool,
}

/// Returns the responses that a client gets over delta ADS when `new` replaces `old`. The client asks for what its
/// resources refer to, as Envoy does, and accepts everything at once.
///
/// `changed` are the keys that differ. The cost follows the changes and all that is connected with them.
#[must_use]
pub fn sending(
    old: &Resources,
    new: &Resources,
    changed: &BTreeSet<ResourceKey>,
    config: &Arc<Config>,
) -> Sending {
    let keys = relevant(old, new, changed);
    let part = |of: &Resources| -> ChangeSet {
        let found = keys.iter().filter_map(|key| of.get(key));
        found.map(Arc::clone).collect()
    };
    let types: BTreeSet<ResourceType> = keys.iter().map(|key| key.0.clone()).collect();
    let mut simulation = Simulation::new(config, &types);
    let (before, _) = Snapshot::unloaded().apply(part(old));
    simulation.run(&before);
    simulation.begin();
    let mut changes = part(new);
    let gone = keys.iter().filter(|key| !new.contains_key(key));
    changes.removals = gone.cloned().collect();
    let (after, _) = before.apply(changes);
    let is_complete = simulation.run(&after);
    let mut sending = simulation.sending;
    for step in &mut sending.steps {
        for sent in &mut step.resources {
            let key = (step.resource_type.clone(), Arc::clone(&sent.name));
            sent.change = match (changed.contains(&key), old.contains_key(&key)) {
                (false, _) => None,
                (true, true) => Some(ChangeKind::Changed),
                (true, false) => Some(ChangeKind::Added),
            };
        }
    }
    let is_sent = |key: &&ResourceKey| {
        let mut of_type = sending.steps.iter().filter(|s| s.resource_type == key.0);
        of_type.any(|step| {
            step.removed.contains(&key.1) || step.resources.iter().any(|one| one.name == key.1)
        })
    };
    let client = &simulation.client;
    // A removed resource that the client unsubscribed from is gone for it, without a response.
    let is_asked = |key: &&ResourceKey| client.asks_for(&key.0, &key.1) || !new.contains_key(key);
    let mut not_requested: Vec<ResourceKey> = Vec::new();
    for key in changed {
        if !is_sent(&key) && !is_asked(&key) {
            not_requested.push(key.clone());
        }
    }
    sending.not_requested = not_requested;
    sending.is_complete = is_complete;
    sending
}

/// Type of a change that is held back, whether it is a removal, and then its name.
type HoldKey = (ResourceType, bool, Option<Arc<str>>);

struct Simulation {
    session: Session,
    client: Client,
    now: Instant,
    begun: Instant,
    /// Responses that the client has not handled.
    on_the_way: VecDeque<DeltaDiscoveryResponse>,
    /// Holds that no response has ended yet, by type, change and name.
    holds: BTreeMap<HoldKey, Vec<Why>>,
    sending: Sending,
}

impl Simulation {
    fn new(config: &Arc<Config>, types: &BTreeSet<ResourceType>) -> Self {
        let mut config = Config::clone(config);
        // A simulation has no limits to defend: they are about clients.
        config.max_names = usize::MAX;
        config.own_types.extend(types.iter().cloned());
        let session = Session::new(Protocol::Delta, Scope::Aggregated, Arc::new(config));
        let mut simulation = Self {
            session,
            client: Client::default(),
            now: Instant::EPOCH,
            begun: Instant::EPOCH,
            on_the_way: VecDeque::new(),
            holds: BTreeMap::new(),
            sending: Sending::default(),
        };
        let node = Node {
            id: "preview".to_owned(),
            ..Node::default()
        };
        for (at, mut request) in Client::start(types).into_iter().enumerate() {
            request.node = (at == 0).then(|| node.clone());
            simulation.request(request);
        }
        simulation
    }

    /// Begins to note steps: the client has the old state for a long time.
    fn begin(&mut self) {
        self.now += LONG;
        self.session.handle_timeout(self.now);
        while self.session.poll_event().is_some() {}
        self.begun = self.now;
        self.holds.clear();
        self.sending = Sending::default();
    }

    /// Exchanges messages until nothing is left to send. Returns whether the client has everything.
    fn run(&mut self, served: &Snapshot) -> bool {
        for _ in 0..MAX_TURNS {
            if let Some(response) = self.session.poll_transmit(self.now, served) {
                self.note_events();
                self.note_step(&response);
                continue;
            }
            self.note_events();
            self.note_holds(served);
            if let Some(response) = self.on_the_way.pop_front() {
                for request in self.client.accept(response, served) {
                    self.request(request);
                }
                continue;
            }
            let is_done = self.holds.is_empty() && self.session.is_in_sync(served);
            match self.session.poll_timeout().filter(|_| !is_done) {
                Some(at) => {
                    self.now = self.now.max(at);
                    self.session.handle_timeout(self.now);
                }
                None => return is_done,
            }
        }
        false
    }

    fn request(&mut self, request: DeltaDiscoveryRequest) {
        // Its types are known, and its names few, so it cannot fail.
        let handled = self.session.handle_request(self.now, request.into());
        debug_assert!(handled.is_ok(), "{handled:?}");
    }

    fn note_step(&mut self, response: &TransmitResponse) {
        let Ok(message) = DeltaDiscoveryResponse::decode(response.frame.message()) else {
            return;
        };
        let resource_type = response.resource_type.clone();
        let mut after: Vec<Why> = Vec::new();
        let updates = !message.resources.is_empty();
        let removed: Vec<Arc<str>> = message
            .removed_resources
            .iter()
            .map(|n| (&**n).into())
            .collect();
        self.holds.retain(|(of, is_removal, name), whys| {
            let is_ended = *of == resource_type
                && match (is_removal, name) {
                    (true, Some(name)) => removed.contains(name),
                    (true, None) => true,
                    (false, _) => updates,
                };
            if is_ended {
                let new = whys.iter().filter(|why| !after.contains(why));
                let new: Vec<_> = new.cloned().collect();
                after.extend(new);
            }
            !is_ended
        });
        let resources = message.resources.iter().map(|one| SentResource {
            name: one.name.as_str().into(),
            change: None,
        });
        self.sending.steps.push(Step {
            resource_type,
            resources: resources.collect(),
            removed,
            after,
        });
        self.sending.delay = self.now - self.begun;
        self.on_the_way.push_back(message);
    }

    fn note_holds(&mut self, served: &Snapshot) {
        let types: Vec<ResourceType> = self
            .session
            .status()
            .into_iter()
            .filter(|status| status.held > 0)
            .map(|status| status.resource_type)
            .collect();
        // A hold without a cause ends with the next response, or ended without one.
        let mut current = BTreeSet::new();
        for resource_type in types {
            for held in self.session.held_back(&resource_type, served) {
                let is_removal = held.change == HeldChange::Removal;
                let name = held.name.filter(|_| is_removal);
                let key = (resource_type.clone(), is_removal, name);
                current.insert(key.clone());
                if let Some(waits_for) = held.waits_for {
                    note(self.holds.entry(key).or_default(), waits_for, false);
                }
            }
        }
        self.holds.retain(|key, _| current.contains(key));
    }

    fn note_events(&mut self) {
        while let Some(event) = self.session.poll_event() {
            let Event::HeldTooLong {
                resource_type,
                held,
            } = event
            else {
                continue;
            };
            let key = match held {
                OverdueChange::Update { waits_for, .. } => {
                    let key = (resource_type, false, None);
                    note(self.holds.entry(key).or_default(), waits_for, true);
                    continue;
                }
                OverdueChange::Removal(name) => (resource_type, true, Some(name)),
                OverdueChange::Answer => (resource_type, false, None),
            };
            let whys = self.holds.entry(key).or_default();
            whys.iter_mut().for_each(|why| why.overdue = true);
        }
    }
}

fn note(whys: &mut Vec<Why>, waits_for: WaitsFor, overdue: bool) {
    let why = Why {
        resource_type: waits_for.resource_type,
        name: waits_for.name,
        missing: waits_for.missing,
        overdue,
    };
    let same = |one: &&mut Why| (&one.resource_type, &one.name) == (&why.resource_type, &why.name);
    match whys.iter_mut().find(same) {
        Some(known) => known.overdue |= overdue,
        None => whys.push(why),
    }
}
