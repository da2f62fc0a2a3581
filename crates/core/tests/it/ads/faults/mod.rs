//! Servers at their worst, and a clock that jumps: whatever they do, the client keeps what was good, says why, and ends up
//! with what there is.

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
    fn whatever_servers_and_clocks_do_what_is_good_stays_and_all_ends_well(
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

/// given a server that is restarted every second, for a minute / then it is called once a second if it answers in between, and
/// ever less often if it does not; what is held stays, and afterwards all is as it should be.
#[test]
fn a_minute_of_restarts_costs_a_call_a_second_at_most() {
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

/// given a resource nested deeper than any reader follows / then it alone is rejected.
#[test]
fn c120_a_resource_that_is_nested_too_deep_is_rejected_and_nothing_else() {
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

/// given a server that sends nothing but what is wrong, at once after every answer / then each is answered, the value stays,
/// its watcher hears of it once, and a detail has bounds.
#[test]
fn a_storm_of_rejections_costs_its_watchers_one_word() {
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
