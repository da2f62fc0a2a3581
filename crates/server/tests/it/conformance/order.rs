//! Make-before-break: S-51 … S-55.

use oxds_core::snapshot::Protocol;

use super::script::{play, play_both};

/// A listener, its route, one cluster and its assignment, subscribed to as Envoy does.
const SHOP: &str = "serve L1=1>R1 R1=1>C1 C1=1>E1 E1=1; ask C; takes C1=1>E1; ask E1; takes E1=1; ask L; takes L1=1>R1; \
                    ask R1; takes R1=1>C1; silent";

/// The route moves from one cluster to another.
const MOVE: &str = "serve R1=2>C2 C2=1>E2 E2=1 -C1 -E1";

#[tokio::test]
async fn s51_s52_cluster_is_replaced_make_before_break() {
    // Envoy sends the subscription that follows from a response before its ACK.
    let sotw = "gets C1=1>E1 C2=1>E2; ask E1 E2; ack; takes E2=1; gets R1=2>C2; silent; ack; takes C2=1>E2; ask E2; silent";
    play(Protocol::Sotw, &format!("{SHOP}; {MOVE}; {sotw}")).await;
    let delta = "gets C2=1>E2; ask E2; ack; takes E2=1; gets R1=2>C2; silent; ack; takes -C1; takes -E1; silent";
    play(Protocol::Delta, &format!("{SHOP}; {MOVE}; {delta}")).await;
}

#[tokio::test]
async fn s51_responses_follow_dependency_order() {
    let serve = "silent; serve R1=1>C1 L1=1>R1 E1=1 C1=1>E1";
    let takes = "takes C1=1>E1; takes E1=1; takes L1=1>R1; takes R1=1>C1; silent";
    let sotw = "serve C; ask R1; ask L; takes L; ask E1; ask C; takes C";
    play(Protocol::Sotw, &format!("{sotw}; {serve}; {takes}")).await;
    let delta = "serve C; ask R1; takes -R1; ask L; takes L; ask E1; takes -E1; ask C; takes C";
    play(Protocol::Delta, &format!("{delta}; {serve}; {takes}")).await;
}

/// Virtual hosts, which exist over delta only, are sent after their route configuration.
#[tokio::test]
async fn s51_virtual_hosts_are_sent_last() {
    let script = "serve C; ask V1; takes V1; ask R1; takes -R1; ask C; takes C; silent; serve V1=1>C1 R1=1 C1=1; \
                  takes C1=1; takes R1=1; takes V1=1>C1; silent";
    play(Protocol::Delta, script).await;
}

#[tokio::test]
async fn s54_changed_cluster_resends_only_its_assignment() {
    let two = "serve C1=1>E1 C2=1>E2 E1=1 E2=1; ask C; takes C1=1>E1 C2=1>E2; ask E1 E2; takes E1=1 E2=1; serve C1=2>E1";
    play(
        Protocol::Sotw,
        &format!("{two}; takes C1=2>E1 C2=1>E2; takes E1=1; silent"),
    )
    .await;
    play(
        Protocol::Delta,
        &format!("{two}; takes C1=2>E1; takes E1=1; silent"),
    )
    .await;
}

#[tokio::test]
async fn s55_type_without_subscription_delays_nothing() {
    play_both(&format!(
        "serve L1=1>R1 R1=1>C1 C1=1>E1 E1=1; ask L; takes L1=1>R1; ask R1; takes R1=1>C1; {MOVE}; takes R1=2>C2; silent"
    ))
    .await;
}
