//! C-266 – C-269: polling of a REST server.

use std::time::Duration;

use oxds_core::poll::{PollOutcome, PollTiming, RestPoller};
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};

const DELAY: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(3);
/// Random numbers for the middle and the ends of the jitter.
const MIDDLE: u64 = u64::MAX / 2;

fn poll() -> RestPoller {
    let pace = PollTiming {
        refresh_delay: DELAY,
        request_timeout: TIMEOUT,
    };
    let node = Node {
        id: "node-1".to_owned(),
        ..Node::default()
    };
    RestPoller::new(pace, node)
}

fn request(version: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        version_info: version.to_owned(),
        resource_names: names.iter().map(|&name| name.to_owned()).collect(),
        response_nonce: "of a stream".to_owned(),
        ..DiscoveryRequest::default()
    }
}

fn response(version: &str) -> PollOutcome {
    PollOutcome::Response(Box::new(DiscoveryResponse {
        version_info: version.to_owned(),
        ..DiscoveryResponse::default()
    }))
}

fn near(at: Option<Instant>, expected: Instant) -> bool {
    let at = at.expect("a time");
    (at - expected).max(expected - at) < Duration::from_millis(1)
}

/// Requests these names, and gets this version as the response.
fn answered(poll: &mut RestPoller, now: Instant, names: &[&str], version: &str) {
    poll.handle_request(request("", names));
    poll.poll_transmit(now).expect("a question");
    let answer = poll.handle_outcome(now, response(version), MIDDLE);
    assert_eq!(answer, response(version));
    // The response is acknowledged.
    poll.handle_request(request(version, names));
}

#[test]
fn c266_fetch_has_node_names_and_version() {
    let (mut poll, now) = (poll(), Instant::EPOCH);
    assert_eq!(poll.poll_transmit(now), None, "no name is subscribed");
    poll.handle_request(request("", &["a"]));
    let first = poll.poll_transmit(now).unwrap();
    assert_eq!(first.node.unwrap().id, "node-1");
    assert_eq!(first.resource_names, ["a"]);
    assert_eq!((&*first.version_info, &*first.response_nonce), ("", ""));
}

/// Given a response with a new version; then the next fetch, after the delay, has this version. A response with the
/// same version, or "not modified", changes nothing.
#[test]
fn c267_same_version_is_unchanged() {
    let (mut poll, start) = (poll(), Instant::EPOCH);
    answered(&mut poll, start, &["a"], "1");
    assert_eq!(poll.poll_transmit(start), None, "an ACK alone is not sent");
    assert!(near(poll.poll_timeout(), start + DELAY));
    let mut now = start;
    for answer in [response("1"), PollOutcome::Unchanged] {
        now += DELAY * 2;
        assert_eq!(poll.handle_timeout(now, MIDDLE), None);
        let next = poll.poll_transmit(now).unwrap();
        assert_eq!(next.version_info, "1");
        assert!(next.node.is_some(), "each poll stands alone");
        let meaning = poll.handle_outcome(now, answer, MIDDLE);
        assert_eq!(meaning, PollOutcome::Unchanged);
    }
    // A server without versions always sends a response.
    let mut poll = self::poll();
    answered(&mut poll, now, &["a"], "");
    poll.handle_timeout(now + DELAY * 2, MIDDLE);
    poll.poll_transmit(now + DELAY * 2).unwrap();
    let answer = poll.handle_outcome(now, response(""), MIDDLE);
    assert_eq!(answer, response(""));
}

#[test]
fn c268_failed_fetch_is_repeated_after_jittered_delay() {
    for (random, part) in [(0, 0.8), (MIDDLE, 1.0), (u64::MAX, 1.2)] {
        let (mut poll, now) = (poll(), Instant::EPOCH);
        answered(&mut poll, now, &["a"], "1");
        poll.handle_timeout(now + DELAY * 2, MIDDLE);
        let now = now + DELAY * 2;
        poll.poll_transmit(now).unwrap();
        let failed = PollOutcome::Failed("503".to_owned());
        assert_eq!(poll.handle_outcome(now, failed.clone(), random), failed);
        let next = now + DELAY.mul_f64(part);
        assert!(near(poll.poll_timeout(), next), "{:?}", poll.poll_timeout());
        poll.handle_timeout(next + DELAY, MIDDLE);
        let again = poll.poll_transmit(next + DELAY).unwrap();
        assert_eq!(again.version_info, "1", "what is held stays");
    }
}

#[test]
fn c269_one_fetch_is_open_and_times_out() {
    let (mut poll, now) = (poll(), Instant::EPOCH);
    poll.handle_request(request("", &["a"]));
    poll.poll_transmit(now).unwrap();
    assert_eq!(poll.poll_transmit(now), None, "one is open");
    assert_eq!(poll.poll_timeout(), Some(now + TIMEOUT));
    let early = now + TIMEOUT / 2;
    assert_eq!(poll.handle_timeout(early, MIDDLE), None);
    let late = now + TIMEOUT;
    let failed = poll.handle_timeout(late, MIDDLE);
    assert!(
        matches!(&failed, Some(PollOutcome::Failed(cause)) if cause == "no answer within 3s"),
        "{failed:?}"
    );
    assert!(near(poll.poll_timeout(), late + DELAY));
}

/// Given a fetch that a server holds open. When another name is subscribed, then a fetch of all names replaces it at
/// once, without the version, which belongs to the old names.
#[test]
fn c269_other_names_replace_the_open_fetch() {
    let (mut poll, now) = (poll(), Instant::EPOCH);
    answered(&mut poll, now, &["a"], "1");
    poll.handle_request(request("1", &["a", "b"]));
    let asked = poll.poll_transmit(now).expect("not after the delay");
    assert_eq!(asked.resource_names, ["a", "b"]);
    assert_eq!(asked.version_info, "");
    poll.handle_request(request("1", &["b"]));
    let asked = poll.poll_transmit(now).expect("in its place");
    assert_eq!(asked.resource_names, ["b"]);
    let answer = poll.handle_outcome(now, response("1"), MIDDLE);
    assert_eq!(answer, response("1"), "the version is one of other names");
}

/// The type URL is needed on aggregated streams; servers of one type often omit it.
#[test]
fn c267_response_without_type_gets_the_requested_type() {
    let (mut poll, now) = (poll(), Instant::EPOCH);
    poll.handle_request(DiscoveryRequest {
        type_url: "type.googleapis.com/a.B".to_owned(),
        ..request("", &["a"])
    });
    poll.poll_transmit(now).unwrap();
    let PollOutcome::Response(response) = poll.handle_outcome(now, response("1"), MIDDLE) else {
        panic!("not a response");
    };
    assert_eq!(response.type_url, "type.googleapis.com/a.B");
}
