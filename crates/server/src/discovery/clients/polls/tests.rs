//! Tests of the registry of poll clients, on a virtual clock.

use oxds_core::session::TypeStatus;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::ApiVersion;

use super::*;

fn at(seconds: u64) -> Instant {
    Instant::from_epoch(Duration::from_secs(seconds))
}

/// A cache, and the registry of its poll clients.
struct PollFixture {
    cache: Cache,
    polls: PollClients,
    node: Node,
    subscription: PollSubscription,
}

impl PollFixture {
    fn new() -> Self {
        let resource_type = ResourceType::CLUSTER;
        Self {
            cache: Cache::new(),
            polls: PollClients::new(Arc::default()),
            node: Node {
                id: "n".into(),
                ..Node::default()
            },
            subscription: PollSubscription {
                api: ApiVersion::V3,
                type_url: resource_type.type_url().to_owned(),
                names: Vec::new(),
                locators: Vec::new(),
                resource_type,
            },
        }
    }

    /// Serves cluster `a` with this content, and returns the version of all clusters.
    fn serve(&self, content: &[u8]) -> Version {
        let resource = Resource::new(ResourceType::CLUSTER, "a", content);
        let snapshot = self.cache.apply(ChangeSet::default().put(resource));
        let clusters = snapshot.of_type(&ResourceType::CLUSTER);
        clusters.collection().version()
    }

    fn client(&self) -> ClientPoll<'_> {
        ClientPoll {
            kind: PollKind::Rest,
            node: Some(&self.node),
            subscription: &self.subscription,
            view: self.cache.root(),
        }
    }

    /// Polls with a version, or with an error; returns whether that was an ACK.
    fn poll(&self, now: Instant, version: &str, error: Option<&str>) -> Option<bool> {
        let error = error.map(|message| Status {
            message: message.into(),
            ..Status::default()
        });
        let handled = self
            .polls
            .handle_request(now, self.client(), version, error.as_ref());
        let event = handled?.events.pop()?;
        Some(matches!(event, Event::Acked { .. }))
    }

    fn send(&self, now: Instant, version: Version) {
        let snapshot = self.cache.snapshot();
        self.polls
            .record_sent(now, self.client(), version, &snapshot);
    }

    /// Returns the state of the only client.
    fn state(&self, now: Instant) -> Option<(Progress, TypeStatus)> {
        let mut state = None;
        self.polls.each(&self.cache, now, |_, client, snapshot| {
            let (resource_type, session) = client.sessions().next().unwrap();
            let progress = session.progress(resource_type, snapshot).unwrap();
            state = Some((progress, session.status().remove(0)));
        });
        state
    }
}

/// Given a poll client: its next poll ACKs the last response, or NACKs it with its message, once. Without a poll for
/// two minutes the client is removed.
#[test]
fn s68_next_poll_acks_or_nacks_the_last_response() {
    let fixture = PollFixture::new();
    let one = fixture.serve(b"1");
    assert_eq!(fixture.poll(at(1), "", None), None);
    assert_eq!(fixture.state(at(1)).unwrap().0, Progress::NotSent);
    fixture.send(at(1), one);
    assert_eq!(fixture.state(at(1)).unwrap().0, Progress::Stale);

    assert_eq!(fixture.poll(at(2), one.as_str(), None), Some(true));
    let (progress, status) = fixture.state(at(2)).unwrap();
    assert_eq!((progress, status.acked_at), (Progress::Synced, Some(at(2))));
    let two = fixture.serve(b"2");
    assert_eq!(fixture.state(at(2)).unwrap().0, Progress::Stale);

    fixture.send(at(3), two);
    let error = Some("a: no");
    assert_eq!(fixture.poll(at(4), one.as_str(), error), Some(false));
    assert_eq!(fixture.poll(at(5), one.as_str(), error), None);
    let (progress, status) = fixture.state(at(5)).unwrap();
    assert_eq!((progress, status.nacks), (Progress::Nacked, 1));
    fixture.polls.each(&fixture.cache, at(5), |_, client, _| {
        let (resource_type, session) = client.sessions().next().unwrap();
        let (name, nacked) = session.nacked_resources(resource_type).next().unwrap();
        assert_eq!((&**name, &*nacked.reason), ("a", "a: no"));
        let a = session.resource_status(resource_type, "a").unwrap();
        assert_ne!(a.acked, a.sent);
    });
    assert!(fixture.state(at(124)).is_some());
    assert!(fixture.state(at(125)).is_none());
}

/// Given a client that NACKed a response: a poll with the version of that response clears the NACK.
#[test]
fn s68_client_that_accepts_after_a_nack_is_synced() {
    let fixture = PollFixture::new();
    let one = fixture.serve(b"1");
    fixture.poll(at(1), "", None);
    fixture.send(at(1), one);
    fixture.poll(at(2), "", Some("not yet"));
    assert_eq!(fixture.state(at(2)).unwrap().0, Progress::Nacked);
    assert_eq!(fixture.poll(at(3), one.as_str(), None), None);
    let snapshot = fixture.cache.snapshot();
    fixture
        .polls
        .record_current(at(3), fixture.client(), one, &snapshot);
    assert_eq!(fixture.state(at(3)).unwrap().0, Progress::Synced);
}

/// Given clients with invented node ids: the registry keeps no more of them than its limit, and still follows those
/// that it has.
#[test]
fn s60_number_of_poll_clients_is_bounded() {
    let mut fixture = PollFixture::new();
    let version = fixture.serve(b"1");
    let invented = |id: usize| PollClient {
        node: Node {
            id: id.to_string(),
            ..Node::default()
        },
        since: at(1),
        last_poll: at(1),
        view: Arc::clone(fixture.cache.root()),
        sessions: BTreeMap::new(),
    };
    let invented = (1..MAX_CLIENTS).map(|id| ((id.to_string(), PollKind::Rest), invented(id)));
    fixture.polls.clients.lock().unwrap().extend(invented);
    for id in ["first", "one too many"] {
        fixture.node.id = id.into();
        assert_eq!(fixture.poll(at(1), "", None), None);
        fixture.send(at(1), version);
    }
    assert_eq!(fixture.polls.len(at(1)), MAX_CLIENTS);
    assert_eq!(fixture.poll(at(1), version.as_str(), None), None);
    fixture.node.id = "first".into();
    assert_eq!(fixture.poll(at(1), version.as_str(), None), Some(true));
}

/// Given two polls of one client that overlap: the one with the older snapshot has no effect.
#[test]
fn s68_older_snapshot_of_an_overlapping_poll_is_ignored() {
    let fixture = PollFixture::new();
    let one = fixture.serve(b"1");
    let older = fixture.cache.snapshot();
    fixture.poll(at(1), "", None);
    let two = fixture.serve(b"2");
    fixture.send(at(1), two);
    let client = fixture.client();
    fixture.polls.record_sent(at(1), client, one, &older);
    assert_eq!(fixture.poll(at(2), two.as_str(), None), Some(true));
    assert_eq!(fixture.state(at(2)).unwrap().0, Progress::Synced);
}
