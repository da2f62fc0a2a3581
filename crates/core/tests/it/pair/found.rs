//! What the properties found, each once.

use oxds_core::snapshot::Protocol;

use super::{TIGHT, run, script::script};
use crate::support::{link::Link, model::Style};

/// Clients as Envoy, on an aggregated stream that is checked for what its order promises.
fn ordered(protocol: Protocol, text: &str) {
    let link = Link::new(Style::Envoy, protocol, true, true);
    run(link, &script(text), false);
}

/// The refusal of C2 arrives after its removal.
#[test]
fn what_returns_after_its_removal_may_be_refused_anew() {
    let ops = "Reconnect 0 0; Pass 0; C2=bad; -C2; Pass 0; C2=bad; -C0";
    let link = Link::new(Style::Envoy, Protocol::Sotw, false, false);
    run(link, &script(ops), true);
}

/// C3 is held when it comes back in a version that the client refuses. It has the held one, and that is what a full
/// state carries on.
#[test]
fn s17_what_was_held_when_a_bad_version_came_serves_on() {
    let ops = "Reconnect 0 0; C1=0; C3=0>E0; Pass 0; E0=0; -C3; C3=bad; -C1";
    let link = Link::new(Style::Envoy, Protocol::Sotw, true, false);
    run(link, &script(ops), true);
}

/// The client comes back with the version that there is, of which C0 has a TTL: a sign of life of C0 alone would be a full
/// state without the others.
#[test]
fn s49_a_full_state_is_confirmed_as_a_whole_after_a_reconnect_too() {
    let ops = "C0=2 C1=0; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; Pass 0";
    ordered(Protocol::Sotw, ops);
}

/// The client takes R1 and E1, and accepts no version, as something beside them is bad: what a sign of life says of an
/// accepted version would not be understood.
#[test]
fn s49_what_was_taken_from_a_refused_response_lives_on() {
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

/// The client comes back with R0, which lives for ten seconds, and refuses the cluster that R0 waits for.
#[test]
fn s49_what_has_a_ttl_waits_no_longer_than_it_lives() {
    let ops = "R0=2>C2@10; L0=0>R0 C2=0>E2; Reconnect 0 0 0 0; Pass 0; Reconnect 0 0 0 0; C2=bad";
    let link = Link::new(Style::Envoy, Protocol::Sotw, true, false);
    run(link, &script(ops), true);
}

/// C3 is owed besides a split answer, and changes before it went.
#[test]
fn s50_what_is_owed_and_changes_meanwhile_is_sent_once() {
    let ops = "C1=0; Reconnect 0 0; Pass 0; C0=0; Reconnect 0 0; C3=0; -C1; Pass 0; C3=bad";
    let mut link = Link::new(Style::Envoy, Protocol::Delta, true, false);
    link.split_above(TIGHT);
    run(link, &script(ops), true);

    let ops = "C0=0; Reconnect 0 0; Pass 0; -C0; C1=0; Reconnect 33 0; C3=0; Pass 33; C3=bad";
    let mut link = Link::new(Style::Envoy, Protocol::Delta, false, false);
    link.split_above(TIGHT);
    run(link, &script(ops), true);
}

/// The client lets go of E1 with C1, the only cluster that needed it, while C2 comes to need it: what the client is
/// known to have of E1, it will not have by then.
#[test]
fn s51_an_assignment_that_is_being_let_go_of_does_not_count_as_there() {
    let ops = "Reconnect 39; C1=0>E1 L0=0>R3; C0=0 C2=0>E0; E1=0; Pass 118; -C1; Pass 77; C2=0>E1; R3=0>C2";
    ordered(Protocol::Sotw, ops);
    ordered(Protocol::Delta, ops);
}

/// SotW cannot say that R0 is gone, so the client has it when it comes back in another version: until that is
/// accepted, the old one needs C0.
#[test]
fn s52_a_route_that_was_gone_and_came_back_still_needs_its_cluster() {
    let ops = "Reconnect 58; C0=0>E1 L0=0>R0; Pass 172; -C0; L1=0>R1; Pass 115; R0=0>C0; -C0; \
               R1=0 -R0 C0=0 -E0; Pass 3; -C0; R0=0";
    ordered(Protocol::Sotw, ops);
}

/// The same, where the client has R0 from an earlier stream and was told nothing of it on this one.
#[test]
fn s52_a_route_of_an_earlier_stream_that_was_gone_and_came_back_still_needs_its_cluster() {
    let ops = "L1=0>R1 R2=0; Reconnect 0; R1=0>C3; C3=0; Pass 0; Reconnect 60; C0=0 L0=0>R2; Pass 138; -R1; \
               Pass 42; -C3 R1=0";
    ordered(Protocol::Sotw, ops);
}
