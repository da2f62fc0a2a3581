//! Make before break: S-51 … S-55.

use oxds_core::snapshot::Protocol;

use super::talk::{play, play_both};

/// A listener, its route, one cluster and its assignment, as Envoy asks for them.
const SHOP: &str = "serve L1=1>R1 R1=1>C1 C1=1>E1 E1=1; ask C; takes C1=1>E1; ask E1; takes E1=1; ask L; takes L1=1>R1; \
                    ask R1; takes R1=1>C1; silent";

/// The route goes from one cluster to another.
const MOVE: &str = "serve R1=2>C2 C2=1>E2 E2=1 -C1 -E1";

#[tokio::test]
async fn s51_s52_a_cluster_is_replaced() {
    // Requests before the acknowledgement that they follow from, as Envoy sends them.
    let sotw = "gets C1=1>E1 C2=1>E2; ask E1 E2; ack; takes E2=1; gets R1=2>C2; silent; ack; takes C2=1>E2; ask E2; silent";
    play(Protocol::Sotw, &format!("{SHOP}; {MOVE}; {sotw}")).await;
    let delta = "gets C2=1>E2; ask E2; ack; takes E2=1; gets R1=2>C2; silent; ack; takes -C1; takes -E1; silent";
    play(Protocol::Delta, &format!("{SHOP}; {MOVE}; {delta}")).await;
}

#[tokio::test]
async fn s51_what_was_asked_for_in_any_order_comes_in_that_of_need() {
    let serve = "silent; serve R1=1>C1 L1=1>R1 E1=1 C1=1>E1";
    let takes = "takes C1=1>E1; takes E1=1; takes L1=1>R1; takes R1=1>C1; silent";
    let sotw = "serve C; ask R1; ask L; takes L; ask E1; ask C; takes C";
    play(Protocol::Sotw, &format!("{sotw}; {serve}; {takes}")).await;
    let delta = "serve C; ask R1; takes -R1; ask L; takes L; ask E1; takes -E1; ask C; takes C";
    play(Protocol::Delta, &format!("{delta}; {serve}; {takes}")).await;
}

/// Virtual hosts, which there are over delta only, come after the route that they are of.
#[tokio::test]
async fn s51_virtual_hosts_come_last() {
    let script = "serve C; ask V1; takes V1; ask R1; takes -R1; ask C; takes C; silent; serve V1=1>C1 R1=1 C1=1; \
                  takes C1=1; takes R1=1; takes V1=1>C1; silent";
    play(Protocol::Delta, script).await;
}

#[tokio::test]
async fn s54_a_changed_cluster_gets_its_assignment_again_and_only_that() {
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
async fn s55_a_type_that_nobody_asked_for_delays_nothing() {
    play_both(&format!(
        "serve L1=1>R1 R1=1>C1 C1=1>E1 E1=1; ask L; takes L1=1>R1; ask R1; takes R1=1>C1; {MOVE}; takes R1=2>C2; silent"
    ))
    .await;
}
