//! Misbehaving servers and a jumping clock: in any case the client keeps accepted resources, reports the reason, and
//! recovers.

mod op;
mod tried;

use std::time::Duration;

use oxds_core::ads::Protocol;
use oxds_types::ResourceType;
use proptest::prelude::*;

use super::{bad_cluster, cluster};
use crate::support::cases::cases;
use op::{Body, Op, deep, op};
use tried::Tried;

const MILLISECOND: Duration = Duration::from_millis(1);

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn client_survives_any_faults_and_recovers(
        is_delta in any::<bool>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let protocol = if is_delta { Protocol::Delta } else { Protocol::Sotw };
        let mut tried = Tried::new(protocol);
        for op in &ops {
            tried.play(op);
        }
        tried.heal();
    }
}

/// Given a server that restarts every second for a minute; then the client calls it once a second if it answers in
/// between, less and less often if not; the cached resource stays, and afterwards everything recovers.
#[test]
fn restarts_for_a_minute_cause_at_most_one_attempt_per_second() {
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        for (answers, calls) in [(true, 40..=61), (false, 5..=12)] {
            let mut tried = Tried::new(protocol);
            tried.play(&Op::Watch(0));
            tried.play(&Op::Opened(0));
            tried.play(&Op::Responds(0, vec![(0, Body::Good(1))]));
            for _ in 0..60 {
                tried.play(&Op::Closed(0));
                for _ in 0..10 {
                    tried.play(&Op::Jumps(100 * MILLISECOND));
                    if tried.opening[0] {
                        tried.play(&Op::Opened(0));
                        if answers {
                            tried.play(&Op::Responds(0, vec![(0, Body::Good(1))]));
                        }
                    }
                }
                assert!(tried.held.contains_key("a"));
            }
            assert!(calls.contains(&tried.calls[0]), "{:?}", tried.calls);
            assert_eq!(tried.calls[1], 0, "all is held");
            tried.heal();
        }
    }
}

/// Given a resource nested deeper than decoders allow; then it alone is rejected.
#[test]
fn c120_deeply_nested_resource_is_rejected_alone() {
    let (mut played, _) = super::Played::watching_clusters(&["a", "b"]);
    let both = vec![deep("a"), cluster("b", "")];
    played.respond(&ResourceType::CLUSTER, "v1", "n1", both);
    let detail = played.request().error_detail.unwrap().message;
    assert!(
        detail.contains("a: cannot be decoded: ") && detail.contains("recursion"),
        "{detail}"
    );
    assert_eq!(
        played.events().first().map(String::as_str),
        Some("b: changed")
    );
}

/// Given a server that sends only invalid responses, one after each NACK; then each is NACKed, the cached resource
/// stays, its watcher gets one event, and the size of the NACK is bounded.
#[test]
fn repeated_nacks_cause_one_event_per_watcher() {
    let names: Vec<String> = (0..2_000)
        .map(|n| format!("cluster-with-a-long-name-{n}"))
        .collect();
    let mut played = super::Played::new();
    for name in &names {
        played.watch(&ResourceType::CLUSTER, name);
    }
    played.open();
    played.request();
    let good = names.iter().map(|name| cluster(name, "")).collect();
    played.respond(&ResourceType::CLUSTER, "v0", "n0", good);
    played.request();
    assert_eq!(played.events().len(), names.len());
    for n in 0..20 {
        let bad = names.iter().map(|name| bad_cluster(name)).collect();
        played.respond(&ResourceType::CLUSTER, "v", &format!("n{n}"), bad);
        let nack = played.request();
        let detail = nack.error_detail.unwrap().message;
        assert!(
            detail.len() < 1 << 17 && detail.ends_with(" more"),
            "{}",
            detail.len()
        );
        assert_eq!(nack.version_info, "v0");
        let expected = if n == 0 { names.len() } else { 0 };
        assert_eq!(played.events().len(), expected);
    }
    let held = played
        .client
        .resources()
        .filter(|(.., cached)| cached.held.is_some());
    assert_eq!(held.count(), names.len());
}
