//! C-266 – C-269: when a server without a stream is asked, and what.

use std::time::Duration;

use oxds_core::poll::{PollOutcome, PollTiming, RestPoller};
use oxds_core::time::Instant;
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node};

const DELAY: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(3);
/// The middle of the jitter, its ends.
const MIDDLE: u64 = u64::MAX / 2;

fn poll() -> RestPoller {
    let pace = PollTiming {
        refresh_delay: DELAY,
        request_timeout: PATIENCE,
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

/// Asks for these names, and takes this version as the answer.
fn answered(poll: &mut RestPoller, now: Instant, names: &[&str], version: &str) {
    poll.handle_request(request("", names));
    poll.poll_transmit(now).expect("a question");
    let answer = poll.handle_outcome(now, response(version), MIDDLE);
    assert_eq!(answer, response(version));
    // It is acknowledged.
    poll.handle_request(request(version, names));
}

#[test]
fn c266_a_question_says_who_asks_for_which_names_and_what_is_held() {
    let (mut poll, now) = (poll(), Instant::EPOCH);
    assert_eq!(poll.poll_transmit(now), None, "there is nothing to ask");
    poll.handle_request(request("", &["a"]));
    let first = poll.poll_transmit(now).unwrap();
    assert_eq!(first.node.unwrap().id, "node-1");
    assert_eq!(first.resource_names, ["a"]);
    assert_eq!((&*first.version_info, &*first.response_nonce), ("", ""));
}

/// Given an answer with a new version / the next question, after the delay, carries it; and an answer with the same
/// version, or that there is none, is nothing new.
#[test]
fn c267_the_next_question_carries_the_version_and_the_same_version_is_nothing_new() {
    let (mut poll, start) = (poll(), Instant::EPOCH);
    answered(&mut poll, start, &["a"], "1");
    assert_eq!(poll.poll_transmit(start), None, "an ACK is no question");
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
    // A server without versions always has something to say.
    let mut poll = self::poll();
    answered(&mut poll, now, &["a"], "");
    poll.handle_timeout(now + DELAY * 2, MIDDLE);
    poll.poll_transmit(now + DELAY * 2).unwrap();
    let answer = poll.handle_outcome(now, response(""), MIDDLE);
    assert_eq!(answer, response(""));
}

#[test]
fn c268_after_a_failure_the_next_question_comes_after_the_delay_more_or_less() {
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
fn c269_one_question_is_open_and_an_answer_must_come_in_time() {
    let (mut poll, now) = (poll(), Instant::EPOCH);
    poll.handle_request(request("", &["a"]));
    poll.poll_transmit(now).unwrap();
    assert_eq!(poll.poll_transmit(now), None, "one is open");
    assert_eq!(poll.poll_timeout(), Some(now + PATIENCE));
    let early = now + PATIENCE / 2;
    assert_eq!(poll.handle_timeout(early, MIDDLE), None);
    let late = now + PATIENCE;
    let failed = poll.handle_timeout(late, MIDDLE);
    assert!(
        matches!(&failed, Some(PollOutcome::Failed(cause)) if cause == "no answer within 3s"),
        "{failed:?}"
    );
    assert!(near(poll.poll_timeout(), late + DELAY));
}

/// Given a question that a server holds open; when another name is wanted / all are asked for at once in its place,
/// without the version, which is that of the names before.
#[test]
fn c269_other_names_take_the_place_of_the_open_question() {
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

/// The type is for streams of many; servers of one often leave it out.
#[test]
fn c267_an_answer_without_a_type_is_of_the_type_asked_for() {
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
