//! Clients that poll, by `Fetch*` or REST: what each was sent, and what its next question says of that.
//!
//! ```text
//!  question, version of what was sent ──▶ it was accepted
//!  question, error_detail             ──▶ it was refused
//!  question, no version               ──▶ the client starts anew
//!  no question for two minutes        ──▶ the client is gone
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxds_core::session::{
    HeldBack, Interest, Nack, NackedResource, Progress, ResourceStatus, TypeStatus,
};
use oxds_core::snapshot::{Resource, Snapshot};
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use super::{About, Subscriber};
use crate::discovery::poll::{Question, Told};

/// A client that was not heard of for this long is gone: twice the longest time that a poll is held.
const AGE: Duration = Duration::from_secs(120);
/// More clients than this are not followed; nor are those that do not say who they are.
const MAX_POLLERS: usize = 10_000;
/// What of a client's words is kept.
const MAX_REASON: usize = 4096;

/// How a client polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Via {
    Fetch,
    Rest,
}

/// Everybody who polls.
#[derive(Debug, Default)]
pub(crate) struct Polls(Mutex<BTreeMap<(String, Via), Poller>>);

/// What came of a question, to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Accepted,
    Refused,
}

#[derive(Debug)]
struct Poller {
    node: Node,
    since: Instant,
    heard: Instant,
    resource_types: BTreeMap<ResourceType, Polled>,
}

/// One kind of one client.
#[derive(Debug)]
struct Polled {
    question: Question,
    sent: Option<Told>,
    acked: Option<Told>,
    acked_at: Option<Instant>,
    waiting_since: Option<Instant>,
    nack: Option<Nack>,
    acks: u64,
    nacks: u64,
}

impl Polls {
    /// A client asks. What its question says of the last answer, if anything.
    pub(crate) fn ask(&self, now: Instant, question: &Question) -> Option<Answered> {
        let node = question.node.as_ref().filter(|node| !node.id.is_empty())?;
        let mut pollers = self.lock(now);
        let key = (node.id.clone(), question.via);
        if pollers.len() >= MAX_POLLERS && !pollers.contains_key(&key) {
            return None;
        }
        let poller = pollers.entry(key).or_insert_with(|| Poller {
            node: node.clone(),
            since: now,
            heard: now,
            resource_types: BTreeMap::new(),
        });
        poller.heard = now;
        let resource_type = question.resource_type().clone();
        let polled = poller
            .resource_types
            .entry(resource_type)
            .or_insert_with(|| Polled::new(question.clone()));
        polled.ask(now, question)
    }

    /// The client is sent this …
    pub(crate) fn sent(&self, now: Instant, question: &Question, told: Told) {
        self.update(now, question, |polled| {
            polled.sent = Some(told);
            polled.waiting_since = Some(now);
        });
    }

    /// … or has it already.
    pub(crate) fn has(&self, now: Instant, question: &Question, told: Told) {
        self.update(now, question, |polled| {
            polled.sent = Some(told.clone());
            polled.accept(now, told);
        });
    }

    /// What the client refused of what it was sent last.
    pub(crate) fn rejections(
        &self,
        now: Instant,
        question: &Question,
    ) -> Vec<(Arc<str>, NackedResource)> {
        let Some(node) = &question.node else {
            return Vec::new();
        };
        let pollers = self.lock(now);
        let poller = pollers.get(&(node.id.clone(), question.via));
        poller.map_or_else(Vec::new, |poller| {
            poller.rejections(question.resource_type())
        })
    }

    fn update(&self, now: Instant, question: &Question, update: impl FnOnce(&mut Polled)) {
        let Some(node) = &question.node else { return };
        let mut pollers = self.lock(now);
        if let Some(poller) = pollers.get_mut(&(node.id.clone(), question.via)) {
            poller.heard = now;
            if let Some(polled) = poller.resource_types.get_mut(question.resource_type()) {
                update(polled);
            }
        }
    }

    /// Shows every client that is there.
    pub(super) fn each(&self, now: Instant, mut see: impl FnMut(&About, &dyn Subscriber)) {
        for ((_, via), poller) in &*self.lock(now) {
            let about = About {
                peer: None,
                protocol: match via {
                    Via::Fetch => "fetch",
                    Via::Rest => "rest",
                },
                since: poller.since,
            };
            see(&about, poller);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self, now: Instant) -> usize {
        self.lock(now).len()
    }

    /// The clients that are there still.
    fn lock(&self, now: Instant) -> MutexGuard<'_, BTreeMap<(String, Via), Poller>> {
        // Each change is complete in itself, so a panic leaves nothing torn.
        let mut pollers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pollers.retain(|_, poller| now - poller.heard < AGE);
        pollers
    }
}

impl Polled {
    fn new(question: Question) -> Self {
        Self {
            question,
            sent: None,
            acked: None,
            acked_at: None,
            waiting_since: None,
            nack: None,
            acks: 0,
            nacks: 0,
        }
    }

    fn ask(&mut self, now: Instant, question: &Question) -> Option<Answered> {
        self.question = question.clone();
        if question.held_version.is_empty() && question.error.is_none() {
            // After its own restart.
            (self.sent, self.acked, self.nack) = (None, None, None);
            self.waiting_since = None;
            return None;
        }
        // The same question may come again: an answer is answered once.
        let (sent, _) = (self.sent.clone()?, self.waiting_since?);
        if let Some(error) = &question.error {
            self.waiting_since = None;
            self.nacks += 1;
            self.nack = Some(Nack {
                version: sent.version,
                reason: error.chars().take(MAX_REASON).collect::<String>().into(),
                at: now,
            });
            return Some(Answered::Refused);
        }
        if sent.version.as_str() != question.held_version {
            return None;
        }
        self.acks += 1;
        self.accept(now, sent);
        Some(Answered::Accepted)
    }

    fn accept(&mut self, now: Instant, told: Told) {
        let before = self.acked.as_ref().map(|acked| acked.version);
        if before != Some(told.version) {
            self.acked_at = Some(now);
        }
        self.acked = Some(told);
        self.nack = None;
        self.waiting_since = None;
    }

    fn resource(&self, name: &str) -> ResourceStatus {
        let of = |told: &Option<Told>| told.as_ref().and_then(|told| told.version_of(name));
        let (sent, acked) = (of(&self.sent), of(&self.acked));
        // A client that polls says no names: whatever it was sent and had not before is suspect.
        let rejected = self.nack.as_ref().zip(sent.filter(|_| sent != acked));
        ResourceStatus {
            sent,
            acked,
            nacked: rejected.map(|(nack, version)| NackedResource {
                version,
                reason: Arc::clone(&nack.reason),
                at: nack.at,
            }),
        }
    }

    fn status(&self, resource_type: &ResourceType) -> TypeStatus {
        let wildcard = self.question.interests() == [Interest::All];
        let version = |told: &Option<Told>| told.as_ref().map(|told| told.version);
        TypeStatus {
            resource_type: resource_type.clone(),
            api: self.question.api(),
            wildcard,
            names: self.question.names().count(),
            sent: version(&self.sent),
            acked: version(&self.acked),
            acked_at: self.acked_at,
            waiting_since: self.waiting_since,
            held: 0,
            nack: self.nack.clone(),
            acks: self.acks,
            nacks: self.nacks,
        }
    }
}

impl Subscriber for Poller {
    fn node(&self) -> Option<&Node> {
        Some(&self.node)
    }

    fn resource_types(&self) -> Vec<TypeStatus> {
        let resource_types = self.resource_types.iter();
        resource_types
            .map(|(resource_type, polled)| polled.status(resource_type))
            .collect()
    }

    fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Progress {
        let Some(polled) = self.resource_types.get(resource_type) else {
            return Progress::NotSent;
        };
        let served = polled.question.content(snapshot).version;
        match (&polled.nack, &polled.sent, &polled.acked) {
            (Some(_), ..) => Progress::Nacked,
            (None, None, _) => Progress::NotSent,
            (None, Some(_), Some(acked)) if acked.version == served => Progress::Synced,
            (None, Some(_), _) => Progress::Stale,
        }
    }

    fn is_in_sync(&self, snapshot: &Snapshot) -> bool {
        let mut resource_types = self.resource_types.keys();
        resource_types
            .all(|resource_type| self.progress(resource_type, snapshot) == Progress::Synced)
    }

    /// Each answer is all that there is.
    fn held_back(&self, _: &ResourceType, _: &Snapshot) -> Vec<HeldBack> {
        Vec::new()
    }

    fn names(&self, resource_type: &ResourceType) -> Vec<Arc<str>> {
        let polled = self.resource_types.get(resource_type).into_iter();
        polled
            .flat_map(|polled| polled.question.names())
            .cloned()
            .collect()
    }

    fn resource(&self, resource_type: &ResourceType, name: &str) -> Option<ResourceStatus> {
        let polled = self.resource_types.get(resource_type)?;
        let mut interests = polled.question.interests().iter();
        let asked = interests.any(|interest| match interest {
            Interest::All => true,
            Interest::Name(asked) => **asked == *name,
        });
        asked.then(|| polled.resource(name))
    }

    fn rejections(&self, resource_type: &ResourceType) -> Vec<(Arc<str>, NackedResource)> {
        let Some(polled) = self
            .resource_types
            .get(resource_type)
            .filter(|polled| polled.nack.is_some())
        else {
            return Vec::new();
        };
        let sent = polled.sent.iter().flat_map(Told::resources);
        let rejected = sent.filter_map(|resource: &Arc<Resource>| {
            let rejected = polled.resource(resource.name()).nacked?;
            Some((Arc::clone(resource.name()), rejected))
        });
        rejected.collect()
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::session::Config;
    use oxds_core::snapshot::ChangeSet;
    use oxds_types::ApiVersion;
    use oxds_types::discovery::{DiscoveryRequest, Status};

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_secs(seconds))
    }

    fn serving(content: &[u8]) -> Arc<Snapshot> {
        let changes = ChangeSet {
            upserts: vec![Arc::new(Resource::new(ResourceType::CLUSTER, "a", content))],
            ..ChangeSet::default()
        };
        Snapshot::unloaded().apply(changes).0
    }

    fn question(version: &str, error: Option<&str>) -> Question {
        let request = DiscoveryRequest {
            version_info: version.to_owned(),
            node: Some(Node {
                id: "n".into(),
                ..Node::default()
            }),
            error_detail: error.map(|message| Status {
                message: message.into(),
                ..Status::default()
            }),
            ..DiscoveryRequest::default()
        };
        let config = Config::default();
        Question::new(
            Via::Rest,
            &ResourceType::CLUSTER,
            ApiVersion::V3,
            request,
            &config,
        )
        .unwrap()
    }

    /// What is shown of the only client.
    fn shown(polls: &Polls, now: Instant, snapshot: &Snapshot) -> Option<(Progress, TypeStatus)> {
        let mut shown = None;
        polls.each(now, |_, poller| {
            let progress = poller.progress(&ResourceType::CLUSTER, snapshot);
            shown = Some((progress, poller.resource_types().remove(0)));
        });
        shown
    }

    /// Given a client that polls; then its next question acknowledges what it was sent, or refuses it in its own words,
    /// once; a client that was not heard of for two minutes is gone.
    #[test]
    fn s68_a_client_that_polls_answers_with_its_next_question() {
        let (one, two) = (serving(b"1"), serving(b"2"));
        let polls = Polls::default();
        let first = question("", None);
        assert_eq!(polls.ask(at(1), &first), None);
        assert_eq!(shown(&polls, at(1), &one).unwrap().0, Progress::NotSent);
        polls.sent(at(1), &first, first.content(&one));
        assert_eq!(shown(&polls, at(1), &one).unwrap().0, Progress::Stale);

        let version = first.content(&one).version.to_string();
        let second = question(&version, None);
        assert_eq!(polls.ask(at(2), &second), Some(Answered::Accepted));
        let (progress, status) = shown(&polls, at(2), &one).unwrap();
        assert_eq!((progress, status.acked_at), (Progress::Synced, Some(at(2))));
        assert_eq!(shown(&polls, at(2), &two).unwrap().0, Progress::Stale);

        polls.sent(at(3), &second, second.content(&two));
        let refusal = question(&version, Some("a: no"));
        assert_eq!(polls.ask(at(4), &refusal), Some(Answered::Refused));
        assert_eq!(polls.ask(at(5), &refusal), None);
        let (progress, status) = shown(&polls, at(5), &two).unwrap();
        assert_eq!((progress, status.nacks), (Progress::Nacked, 1));
        polls.each(at(5), |_, poller| {
            let (name, rejection) = poller.rejections(&ResourceType::CLUSTER).remove(0);
            assert_eq!((&*name, &*rejection.reason), ("a", "a: no"));
            let a = poller.resource(&ResourceType::CLUSTER, "a").unwrap();
            assert_ne!(a.acked, a.sent);
        });
        assert!(shown(&polls, at(124), &two).is_some());
        assert!(shown(&polls, at(125), &two).is_none());
    }

    /// Given clients that make up names; then no more of them are followed than may be, and those that are still are.
    #[test]
    fn s60_made_up_pollers_are_bounded() {
        let (polls, served) = (Polls::default(), serving(b"1"));
        let nobody = || Poller {
            node: Node::default(),
            since: at(1),
            heard: at(1),
            resource_types: BTreeMap::new(),
        };
        let made_up = (1..MAX_POLLERS).map(|id| ((id.to_string(), Via::Rest), nobody()));
        polls.0.lock().unwrap().extend(made_up);
        let ask = |id: &str, version: &str| {
            let mut question = question(version, None);
            question.node.as_mut().unwrap().id = id.to_owned();
            let answered = polls.ask(at(1), &question);
            polls.sent(at(1), &question, question.content(&served));
            answered
        };
        let version = question("", None).content(&served).version;
        for id in ["first", "one too many"] {
            assert_eq!(ask(id, ""), None);
        }
        assert_eq!(polls.len(at(1)), MAX_POLLERS);
        assert_eq!(ask("first", version.as_str()), Some(Answered::Accepted));
        assert_eq!(ask("one too many", version.as_str()), None);
    }
}
