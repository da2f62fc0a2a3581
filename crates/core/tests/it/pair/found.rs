//! Sequences that the properties found, one test each.

use oxds_core::snapshot::Protocol;

use super::{TIGHT, run, script::script};
use crate::support::{
    link::Link,
    model::{Rejects, Style},
};

/// Plays a script with an Envoy client on an aggregated stream whose order is checked.
fn ordered(protocol: Protocol, text: &str) {
    let link = Link::new(Style::Envoy, protocol, true, true);
    run(link, &script(text), false);
}

/// The NACK of C2 arrives after its removal.
#[test]
fn resource_that_returns_may_be_nacked_again() {
    let ops = "Reconnect 0 0; Pass 0; C2=bad; -C2; Pass 0; C2=bad; -C0";
    let link = Link::new(Style::Envoy, Protocol::Sotw, false, false);
    run(link, &script(ops), true);
}

/// The client has E2 when it gets C1, which needs E2, together with C0, for which it rejects the response as a whole.
#[test]
fn s54_assignment_of_an_isolated_cluster_is_sent_again() {
    let ops = "C0=0>E2; E2=0; Reconnect 0 0 0 0; Pass 0; C0=broken C1=0>E2";
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut link = Link::new(Style::Envoy, protocol, true, false);
        link.client.rejects = Rejects::AsEnvoy;
        run(link, &script(ops), true);
    }
}

/// The client uses C0 of an earlier stream, and NACKs the first response, which removes it.
#[test]
fn resource_of_a_nacked_state_is_removed() {
    for ops in [
        "C1=0; C2=bad; Stall; Reconnect 0 0 0 0; Pass 0; -C0; -C1 C2=broken",
        "C0=0; Reconnect 0 0 0 0; Pass 0; C1=broken C2=broken -C0",
    ] {
        for protocol in [Protocol::Sotw, Protocol::Delta] {
            for aggregated in [true, false] {
                let mut link = Link::new(Style::Envoy, protocol, aggregated, false);
                link.client.rejects = Rejects::AsEnvoy;
                run(link, &script(ops), true);
            }
        }
    }
}

/// The client returns with L0, the rest of a state of which it NACKed L1. When it gets both again, it NACKs L1 again,
/// and L0 has become bad: it still uses the old L0.
#[test]
fn rest_of_a_state_nacked_before_stays_in_use() {
    let ops = "L1=bad; L0=0; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; Stall; Pass 0; L0=bad";
    for aggregated in [true, false] {
        let mut link = Link::new(Style::Envoy, Protocol::Sotw, aggregated, false);
        link.client.rejects = Rejects::AsEnvoy;
        run(link, &script(ops), true);
    }
}

/// The client returns with a version that the server does not know, and accepts nothing since: it may use another copy
/// of the bad resources. The heartbeat of the good one is the full state, which removes none of them.
#[test]
fn s49_heartbeat_of_a_returning_client_removes_nothing() {
    for ops in [
        "Reconnect 0 0 0 0; L0=bad L1=0; Pass 0; L1=2@10; Reconnect 0 0 0 0; Pass 0; L2=bad",
        "L3=bad L0=1; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; L0=0; Pass 0; L1=bad L0=2@10",
    ] {
        for aggregated in [true, false] {
            let link = Link::new(Style::Envoy, Protocol::Sotw, aggregated, false);
            run(link, &script(ops), true);
        }
    }
}

/// The removal of C0 is held until the first round of isolation is accepted. The second round, which removes C0 by its
/// absence, is NACKed.
#[test]
fn s52_released_removal_of_a_nacked_state_is_repeated() {
    let ops =
        "C2=0>E2; Reconnect 0 0 0 0; C0=0; Pass 0; Reconnect 1 0 0 0; L0=0>R0 C1=0; -C0; C2=broken";
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut link = Link::new(Style::Envoy, protocol, true, false);
        link.client.rejects = Rejects::AsEnvoy;
        run(link, &script(ops), true);
    }
}

/// The client returns with an earlier C0, and NACKs the first state as a whole. The next one, without C2, repeats C0,
/// which warms then.
#[test]
fn s54_assignment_of_a_repeated_cluster_is_sent_again() {
    let ops = "E0=0; C2=broken; C0=1>E0; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; C0=0>E0; Pass 0; -C2";
    let mut link = Link::new(Style::Envoy, Protocol::Sotw, true, false);
    link.client.rejects = Rejects::AsEnvoy;
    run(link, &script(ops), true);
}

/// C0 is bad, then bad in another way, for which the client rejects the whole response, then as before.
#[test]
fn content_that_returns_after_a_whole_nack_is_sent() {
    let ops = "Reconnect 0 0 0 0; Stall; C0=bad>E2; Pass 0; C0=broken; Stall; Pass 0; C0=bad>E2";
    let mut link = Link::new(Style::Envoy, Protocol::Sotw, false, false);
    link.client.rejects = Rejects::AsEnvoy;
    run(link, &script(ops), true);
}

/// The client unsubscribes from R1 while it is in flight, so that no watch sees that it is bad.
#[test]
fn resource_without_a_subscription_stops_nothing() {
    let ops = "L0=0>R0; L2=0>R1; R0=0; Reconnect 0 0 0 0; Pass 0; -L2; R1=bad -R0";
    let mut link = Link::new(Style::Envoy, Protocol::Delta, false, false);
    link.client.rejects = Rejects::AsEnvoy;
    run(link, &script(ops), true);
}

/// E2 is sent again for C0, in a response that the client rejects for E3.
#[test]
fn s54_repeated_assignment_is_sent_after_a_nack() {
    let ops = "C0=0>E3; C2=0>E2 E2=0; Reconnect 0 0 0 0; Pass 0; E3=0; C0=0>E2; E3=broken";
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut link = Link::new(Style::Envoy, protocol, true, false);
        link.client.rejects = Rejects::AsEnvoy;
        run(link, &script(ops), true);
    }
}

/// L1 is bad, and the client may have an earlier copy, so each full state carries it, and is NACKed. The client uses
/// the new L0, which has a TTL.
#[test]
fn s49_resource_is_confirmed_whose_earlier_version_was_nacked() {
    let ops = "L0=bad; Want 3; Reconnect 0 0 0 0; Want 1; L1=bad L3=0; Pass 0; Reconnect 0 0 0 0; Want 3; Want 0; \
               Pass 0; L0=2@10";
    let link = Link::new(Style::ByName, Protocol::Sotw, false, false);
    run(link, &script(ops), true);
}

/// The removal of C3 is held when C3 comes back in a version that the client NACKs. The client has the held copy,
/// which SotW responses repeat.
#[test]
fn s17_held_copy_stays_when_its_new_version_is_nacked() {
    let ops = "Reconnect 0 0; C1=0; C3=0>E0; Pass 0; E0=0; -C3; C3=bad; -C1";
    let link = Link::new(Style::Envoy, Protocol::Sotw, true, false);
    run(link, &script(ops), true);
}

/// The client reconnects with the current version, and C0 has a TTL: a heartbeat of C0 alone would be a full state
/// without the others.
#[test]
fn s49_heartbeat_after_reconnect_is_the_full_state() {
    let ops = "C0=2 C1=0; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; Pass 0";
    ordered(Protocol::Sotw, ops);
}

/// The client applies R1 and E1 but accepts no version, since the responses contain a bad resource. It would not take
/// a heartbeat, which carries an accepted version, for one.
#[test]
fn s49_resource_of_nacked_response_is_confirmed() {
    for ops in [
        "R1=2@10; L0=0>R1 L1=0>R2; R2=bad",
        "E0=bad; C2=0>E1; E1=2@10; C0=0>E0",
        "E2=2@10; C0=0>E2 E1=bad; Reconnect 0 0 0 0; C1=0>E1; -L0",
        "C0=0>E0 C1=0>E1; Reconnect 0 0 0 0; E1=bad E0=2@10; -C2",
    ] {
        for aggregated in [true, false] {
            let link = Link::new(Style::Envoy, Protocol::Sotw, aggregated, false);
            run(link, &script(ops), true);
        }
    }
}

/// The client reconnects with R0, which has a TTL of ten seconds, and NACKs the cluster that R0 waits for.
#[test]
fn s49_update_with_ttl_is_held_for_less_than_its_ttl() {
    let ops = "R0=2>C2@10; L0=0>R0 C2=0>E2; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; C2=bad";
    let link = Link::new(Style::Envoy, Protocol::Sotw, true, false);
    run(link, &script(ops), true);
}

/// C3 is due besides a split answer, and changes before it is sent.
#[test]
fn s50_due_resource_that_changes_is_sent_once() {
    let ops = "C1=0; Reconnect 0 0; Pass 0; C0=0; Reconnect 0 0; C3=0; -C1; Pass 0; C3=bad";
    let mut link = Link::new(Style::Envoy, Protocol::Delta, true, false);
    link.split_above(TIGHT);
    run(link, &script(ops), true);

    let ops = "C0=0; Reconnect 0 0; Pass 0; -C0; C1=0; Reconnect 33 0; C3=0; Pass 33; C3=bad";
    let mut link = Link::new(Style::Envoy, Protocol::Delta, false, false);
    link.split_above(TIGHT);
    run(link, &script(ops), true);
}

/// The client unsubscribes from E1 with C1, the only cluster that needed it, while C2 changes to need it. It will
/// have dropped its copy of E1 by then.
#[test]
fn s51_assignment_about_to_be_dropped_does_not_count() {
    let ops = "Reconnect 39; C1=0>E1 L0=0>R3; C0=0 C2=0>E0; E1=0; Pass 118; -C1; Pass 77; C2=0>E1; R3=0>C2";
    ordered(Protocol::Sotw, ops);
    ordered(Protocol::Delta, ops);
}

/// The client returns with R2, which is gone; so is C3, which R2 needs. The removal of R2 waits until it is known that
/// no listener of the client uses R2.
#[test]
fn s52_cluster_of_a_route_that_is_about_to_go_is_kept() {
    let ops = "R2=0>C3; Reconnect 0 0 0 0; L1=0>R2; C3=0; Pass 0; Reconnect 0 0 0 0; -C3; -R2";
    ordered(Protocol::Delta, ops);
}

/// SotW cannot express that R0 is gone, so the client has it when it comes back in another version. Until that is
/// accepted, the old version needs C0.
#[test]
fn s52_route_that_returns_still_needs_its_cluster() {
    let ops = "Reconnect 58; C0=0>E1 L0=0>R0; Pass 172; -C0; L1=0>R1; Pass 115; R0=0>C0; -C0; \
               R1=0 -R0 C0=0 -E0; Pass 3; -C0; R0=0";
    ordered(Protocol::Sotw, ops);
}

/// The same, where the client has R0 from an earlier stream, and nothing was sent about it on this one.
#[test]
fn s52_route_of_earlier_stream_still_needs_its_cluster() {
    let ops = "L1=0>R1 R2=0; Reconnect 0; R1=0>C3; C3=0; Pass 0; Reconnect 60; C0=0 L0=0>R2; Pass 138; -R1; \
               Pass 42; -C3 R1=0";
    ordered(Protocol::Sotw, ops);
}

/// E0 is repeated for the new C0, in a response that the client rejects for E1.
#[test]
fn s54_repeated_assignment_of_nacked_response_is_sent_again() {
    let ops = "C3=0>E1; C2=broken>E1; C1=1>E0; Reconnect 38 34 37 9; Pass 11172; Disconnect; C3=1>E1; E0=1; \
               C0=0>E0 E1=broken";
    let mut link = Link::new(Style::Envoy, Protocol::Delta, true, false);
    link.client.rejects = Rejects::AsEnvoy;
    run(link, &script(ops), true);
}

/// The client ACKs nothing on its second stream, since L1 is bad and it may have an earlier copy. L0 is new there.
#[test]
fn s80_copy_of_client_without_ack_on_this_stream_is_unknown() {
    let ops = "L1=bad; L2=1; Reconnect 70 38 78 21; Pass 13983; L3=2@10; Reconnect 43 14 75 40; Pass 3568; L0=bad";
    let link = Link::new(Style::Envoy, Protocol::Sotw, false, false);
    run(link, &script(ops), true);
}
