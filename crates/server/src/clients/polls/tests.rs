//! Tests of the registry of poll clients, on a virtual clock.

use oxds_core::session::{Progress, TypeStatus};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::discovery::Status;
use oxds_types::{ApiVersion, Version};

use super::*;
use crate::calls::Limits;

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

/// A poll without an answer yet, and whether it was an ACK.
struct Asked {
    open: OpenPoll,
    acked: Option<bool>,
}

fn subscription(resource_type: &ResourceType, names: &[&str]) -> PollSubscription {
    let type_url = resource_type.type_url().to_owned();
    let names = names.iter().map(ToString::to_string).collect();
    PollSubscription::new((resource_type, ApiVersion::V3), type_url, names, Vec::new())
}

impl PollFixture {
    fn new() -> Self {
        Self {
            cache: Cache::new(),
            polls: PollClients::new(Arc::default(), Budget::of_server(&Limits::default())),
            node: Node {
                id: "n".into(),
                ..Node::default()
            },
            subscription: subscription(&ResourceType::CLUSTER, &[]),
        }
    }

    /// Serves a resource with this content, and returns the version of all resources of its type.
    fn serve(&self, resource_type: &ResourceType, name: &str, content: &[u8]) -> Version {
        let resource = Resource::new(resource_type.clone(), name, content);
        let snapshot = self.cache.apply(ChangeSet::default().put(resource));
        snapshot.of_type(resource_type).collection().version()
    }

    fn serve_cluster(&self, content: &[u8]) -> Version {
        self.serve(&ResourceType::CLUSTER, "a", content)
    }

    fn poll_with(&self, now: Instant, version: &str, nonce: &str, error: Option<&str>) -> Asked {
        let error = error.map(|message| Status {
            message: message.into(),
            ..Status::default()
        });
        let poll = ClientPoll {
            kind: PollKind::Rest,
            node: Some(&self.node),
            subscription: &self.subscription,
            view: self.cache.root(),
        };
        let report = PollReport {
            version,
            nonce,
            error: error.as_ref(),
        };
        let (open, mut handled) = self.polls.open(now, poll, report);
        let acked = handled.events.pop();
        let acked = acked.map(|event| matches!(event, Event::Acked { .. }));
        Asked { open, acked }
    }

    fn poll(&self, now: Instant, version: &str, error: Option<&str>) -> Asked {
        self.poll_with(now, version, "", error)
    }

    /// Returns the version and the number of resources of the answer to a poll; `None` if there is nothing new.
    fn answer(&self, now: Instant, asked: &Asked) -> Option<(Version, usize)> {
        let sent = asked.open.transmit(now, self.cache.root())?;
        Some((sent.version, sent.resources))
    }

    /// Returns the states of the only client, by subscription.
    fn states(&self, now: Instant) -> Vec<(Progress, TypeStatus)> {
        let mut states = Vec::new();
        self.polls.each(&self.cache, now, |_, client, snapshot| {
            for (resource_type, session) in client.sessions() {
                let progress = session.progress(resource_type, snapshot).unwrap();
                states.push((progress, session.status().remove(0)));
            }
        });
        states
    }

    fn state(&self, now: Instant) -> Option<(Progress, TypeStatus)> {
        self.states(now).pop()
    }
}

/// Given a poll client: its next poll ACKs the last response, or NACKs it with its message, once. Without a poll for
/// two minutes the client is removed.
#[test]
fn s68_next_poll_acks_or_nacks_the_last_response() {
    let fixture = PollFixture::new();
    let one = fixture.serve_cluster(b"1");
    let asked = fixture.poll(at(1), "", None);
    assert_eq!(asked.acked, None);
    assert_eq!(fixture.state(at(1)).unwrap().0, Progress::NotSent);
    assert_eq!(fixture.answer(at(1), &asked), Some((one, 1)));
    assert_eq!(fixture.state(at(1)).unwrap().0, Progress::Stale);

    let asked = fixture.poll(at(2), one.as_str(), None);
    assert_eq!(asked.acked, Some(true));
    assert_eq!(fixture.answer(at(2), &asked), None);
    let (progress, status) = fixture.state(at(2)).unwrap();
    assert_eq!((progress, status.acked_at), (Progress::Synced, Some(at(2))));
    let two = fixture.serve_cluster(b"2");
    assert_eq!(fixture.state(at(2)).unwrap().0, Progress::Stale);

    assert_eq!(fixture.answer(at(3), &asked), Some((two, 1)));
    let error = Some("a: no");
    assert_eq!(fixture.poll(at(4), one.as_str(), error).acked, Some(false));
    assert_eq!(fixture.poll(at(5), one.as_str(), error).acked, None);
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

/// Given a client that NACKed a response: no later poll is sent that content again, with or without the error, while
/// another resource changes and after it has changed. When the content changes, then it is sent.
#[test]
fn s80_nacked_content_is_not_sent_to_later_polls() {
    let fixture = PollFixture::new();
    let one = fixture.serve_cluster(b"first");
    let asked = fixture.poll(at(1), "", None);
    assert_eq!(fixture.answer(at(1), &asked), Some((one, 1)));
    fixture.poll(at(2), one.as_str(), None);
    let two = fixture.serve_cluster(b"second");
    let asked = fixture.poll(at(3), one.as_str(), None);
    assert_eq!(fixture.answer(at(3), &asked), Some((two, 1)));
    for (second, error) in [(4, Some("a: no")), (5, Some("a: no")), (6, None), (7, None)] {
        let asked = fixture.poll(at(second), one.as_str(), error);
        assert_eq!(fixture.answer(at(second), &asked), None, "at {second}");
    }
    // Another cluster: the response has it beside the copy of `a` that the client uses.
    fixture.serve(&ResourceType::CLUSTER, "b", b"1");
    let asked = fixture.poll(at(8), one.as_str(), None);
    let sent = asked.open.transmit(at(8), fixture.cache.root()).unwrap();
    assert_eq!(sent.resources, 2);
    let accepted = Resource::new(ResourceType::CLUSTER, "a", b"first");
    let message = sent.frame.message();
    let holds = |part: &[u8]| message.windows(part.len()).any(|bytes| bytes == part);
    assert!(holds(&accepted.value()) && !holds(b"second"));
    let asked = fixture.poll(at(9), sent.version.as_str(), None);
    assert_eq!(
        (asked.acked, fixture.answer(at(9), &asked)),
        (Some(true), None)
    );
    assert_eq!(fixture.state(at(9)).unwrap().0, Progress::Nacked);

    let three = fixture.serve_cluster(b"third");
    assert_eq!(fixture.answer(at(10), &asked), Some((three, 2)));
    assert_eq!(fixture.poll(at(11), three.as_str(), None).acked, Some(true));
    assert_eq!(fixture.state(at(11)).unwrap().0, Progress::Synced);
}

/// Given a client that rejects its first response, and shows by the nonce that it has not restarted: the response is
/// not sent again. A poll without version and nonce is of a client that restarted: it gets everything.
#[test]
fn s56_nonce_tells_a_rejection_from_a_restart() {
    let fixture = PollFixture::new();
    let one = fixture.serve_cluster(b"1");
    let asked = fixture.poll(at(1), "", None);
    assert_eq!(fixture.answer(at(1), &asked), Some((one, 1)));
    let nonce = one.as_str();
    let asked = fixture.poll_with(at(2), "", nonce, Some("a: no"));
    assert_eq!(
        (asked.acked, fixture.answer(at(2), &asked)),
        (Some(false), None)
    );
    let asked = fixture.poll_with(at(3), "", nonce, None);
    assert_eq!((asked.acked, fixture.answer(at(3), &asked)), (None, None));
    assert_eq!(fixture.state(at(3)).unwrap().0, Progress::Nacked);
    let asked = fixture.poll(at(4), "", None);
    assert_eq!(fixture.answer(at(4), &asked), Some((one, 1)));
}

/// Given a client that polls with its former version, without nonce and error: it lost the response, or is another
/// process with the same node id. It gets the response again.
#[test]
fn s56_lost_response_is_sent_again() {
    let fixture = PollFixture::new();
    let one = fixture.serve_cluster(b"1");
    let asked = fixture.poll(at(1), "", None);
    fixture.answer(at(1), &asked);
    fixture.poll(at(2), one.as_str(), None);
    let two = fixture.serve_cluster(b"2");
    for second in [3, 4] {
        let asked = fixture.poll(at(second), one.as_str(), None);
        assert_eq!(
            fixture.answer(at(second), &asked),
            Some((two, 1)),
            "at {second}"
        );
    }
    assert_eq!(fixture.poll(at(5), two.as_str(), None).acked, Some(true));
    let other = fixture.poll(at(6), one.as_str(), None);
    assert_eq!(fixture.answer(at(6), &other), Some((two, 1)));
}

/// Given a client that polls the endpoints of each cluster by themselves, as Envoy does: a NACK of one subscription
/// outlasts polls of the others. When the client stops polling one of them, then that one ends.
#[test]
fn s56_each_subscription_of_a_client_has_its_own_state() {
    let mut fixture = PollFixture::new();
    let eds = ResourceType::ENDPOINT;
    fixture.serve(&eds, "a", b"1");
    fixture.serve(&eds, "b", b"1");
    let of = |name: &str| subscription(&eds, &[name]);
    let mut versions = Vec::new();
    for name in ["a", "b"] {
        fixture.subscription = of(name);
        let asked = fixture.poll(at(1), "", None);
        let (version, resources) = fixture.answer(at(1), &asked).unwrap();
        assert_eq!(resources, 1);
        assert_eq!(
            fixture.poll(at(2), version.as_str(), None).acked,
            Some(true)
        );
        versions.push(version);
    }
    fixture.serve(&eds, "a", b"2");
    fixture.subscription = of("a");
    let asked = fixture.poll(at(3), versions[0].as_str(), None);
    assert!(fixture.answer(at(3), &asked).is_some());
    for second in 4..9 {
        fixture.subscription = of("b");
        let asked = fixture.poll(at(second), versions[1].as_str(), None);
        assert_eq!(fixture.answer(at(second), &asked), None);
        fixture.subscription = of("a");
        let asked = fixture.poll(at(second), versions[0].as_str(), Some("a: no"));
        assert_eq!(fixture.answer(at(second), &asked), None);
    }
    let progress = |now| -> Vec<Progress> {
        let states = fixture.states(now).into_iter();
        states.map(|(progress, _)| progress).collect()
    };
    assert_eq!(progress(at(8)), [Progress::Nacked, Progress::Synced]);
    fixture.poll(at(20), versions[0].as_str(), None);
    assert_eq!(progress(at(20)), [Progress::Nacked]);
}

/// Given a client that NACKed a response: a poll with the version of that response clears the NACK.
#[test]
fn s68_client_that_accepts_after_a_nack_is_synced() {
    let fixture = PollFixture::new();
    let one = fixture.serve_cluster(b"1");
    let asked = fixture.poll(at(1), "", None);
    fixture.answer(at(1), &asked);
    fixture.poll(at(2), "", Some("not yet"));
    assert_eq!(fixture.state(at(2)).unwrap().0, Progress::Nacked);
    let asked = fixture.poll(at(3), one.as_str(), None);
    assert_eq!((asked.acked, fixture.answer(at(3), &asked)), (None, None));
    assert_eq!(fixture.state(at(3)).unwrap().0, Progress::Synced);
}

/// Given a poll by name: the version of the answer depends on the resources with these names only.
#[test]
fn s56_version_depends_on_the_requested_names_only() {
    let mut fixture = PollFixture::new();
    let eds = ResourceType::ENDPOINT;
    fixture.serve(&eds, "a", b"1");
    fixture.serve(&eds, "b", b"1");
    fixture.subscription = subscription(&eds, &["a", "a"]);
    let asked = fixture.poll(at(1), "", None);
    let (one, _) = fixture.answer(at(1), &asked).unwrap();
    fixture.serve(&eds, "b", b"2");
    let asked = fixture.poll(at(2), one.as_str(), None);
    assert_eq!(fixture.answer(at(2), &asked), None);
    fixture.serve(&eds, "a", b"2");
    let (two, _) = fixture.answer(at(2), &asked).unwrap();
    assert_ne!(one, two);
}

/// Given a poll for names that do not exist: the answer has no resources. A stream would get no response (S-8), but a
/// poll that got none would be repeated.
#[test]
fn s56_unknown_names_get_an_empty_answer() {
    let mut fixture = PollFixture::new();
    let eds = ResourceType::ENDPOINT;
    fixture.serve(&eds, "a", b"1");
    for names in [&["z"][..], &[]] {
        fixture.subscription = subscription(&eds, names);
        let asked = fixture.poll(at(1), "", None);
        let (empty, resources) = fixture.answer(at(1), &asked).unwrap();
        assert_eq!(resources, 0, "{names:?}");
        let asked = fixture.poll(at(2), empty.as_str(), None);
        assert_eq!(fixture.answer(at(2), &asked), None, "{names:?}");
    }
}

/// Given more resources than fit one response of a stream: the answer has all of them (S-50).
#[test]
fn s50_s56_answer_is_not_split() {
    let mut fixture = PollFixture::new();
    let content = vec![0; 2 << 20];
    for name in ["a", "b", "c"] {
        fixture.serve(&ResourceType::ENDPOINT, name, &content);
    }
    for asked in [&["a", "b", "c"][..], &["*"]] {
        fixture.subscription = subscription(&ResourceType::ENDPOINT, asked);
        let open = fixture.poll(at(1), "", None);
        let (_, resources) = fixture.answer(at(1), &open).unwrap();
        assert_eq!(resources, 3, "{asked:?}");
    }
}

/// Given clients with invented node ids: the registry keeps no more of them than its limit, and still follows those
/// that it has.
#[test]
fn s60_number_of_poll_clients_is_bounded() {
    let mut fixture = PollFixture::new();
    let version = fixture.serve_cluster(b"1");
    for id in 1..MAX_CLIENTS {
        fixture.node.id = id.to_string();
        fixture.poll(at(1), "", None);
    }
    for id in ["first", "one too many"] {
        fixture.node.id = id.into();
        let asked = fixture.poll(at(1), "", None);
        assert_eq!(fixture.answer(at(1), &asked), Some((version, 1)), "{id}");
    }
    assert_eq!(fixture.polls.len(at(1)), MAX_CLIENTS);
    // It is answered, but nothing is known of its last response.
    let asked = fixture.poll(at(1), version.as_str(), None);
    assert_eq!((asked.acked, fixture.answer(at(1), &asked)), (None, None));
    fixture.node.id = "first".into();
    assert_eq!(
        fixture.poll(at(1), version.as_str(), None).acked,
        Some(true)
    );
}

/// Given a client with more subscriptions than the limit: the one that was not polled for the longest time ends.
#[test]
fn s60_number_of_poll_subscriptions_is_bounded() {
    let mut fixture = PollFixture::new();
    for number in 0..=MAX_SUBSCRIPTIONS {
        let name = number.to_string();
        fixture.subscription = subscription(&ResourceType::ENDPOINT, &[&*name]);
        fixture.poll(
            Instant::from_epoch(Duration::from_millis(number as u64)),
            "",
            None,
        );
    }
    let states = fixture.states(at(3));
    assert_eq!(states.len(), MAX_SUBSCRIPTIONS);
    fixture.polls.each(&fixture.cache, at(3), |_, client, _| {
        let known = |name: &str| client.sessions.keys().any(|(_, names)| *names == [name]);
        assert!(!known("0") && known("1"));
    });
}

/// Given two polls of one client that overlap: only the later one is answered.
#[test]
fn s68_earlier_of_two_overlapping_polls_gets_nothing() {
    let fixture = PollFixture::new();
    let one = fixture.serve_cluster(b"1");
    let earlier = fixture.poll(at(1), "", None);
    let later = fixture.poll(at(2), "", None);
    assert_eq!(fixture.answer(at(2), &earlier), None);
    assert_eq!(fixture.answer(at(2), &later), Some((one, 1)));
    assert_eq!(fixture.poll(at(3), one.as_str(), None).acked, Some(true));
    assert_eq!(fixture.state(at(3)).unwrap().0, Progress::Synced);
}
