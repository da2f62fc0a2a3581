//! The order in which a client gets a change: that of the server's session (S-51 … S-55).

use super::{CDS, EDS, LDS, RDS, SDS, lines, resource, sent, shop, with, without};

/// Given cluster X that Y replaces, then Y and its assignment are sent first, then the route, and X is removed last.
#[test]
fn s52_plan_makes_before_it_breaks() {
    let new = with(
        without(without(shop(), &CDS, "X"), &EDS, "X"),
        vec![
            resource(&RDS, "main=2", &[(CDS, "Y")]),
            resource(&CDS, "Y=1", &[(EDS, "Y")]),
            resource(&EDS, "Y=1", &[]),
        ],
    );
    let sending = sent(&shop(), &new);
    assert_eq!(
        lines(&sending),
        [
            "cds +Y",
            "eds +Y",
            "rds ~main after cds Y after eds Y",
            "cds -X after rds main after eds all",
            "eds -X after cds X",
        ]
    );
    assert!(sending.is_complete && sending.delay.is_zero());
    assert!(sending.not_requested.is_empty());
}

/// Given all types new at once, then they are sent in the order of the types.
#[test]
fn s51_plan_sends_dependencies_first() {
    let sending = sent(&[], &shop());
    assert_eq!(
        lines(&sending),
        ["cds +X", "lds +front", "eds +X", "rds +main after eds X"]
    );
    assert!(sending.is_complete);
}

/// Given a cluster that changes while its assignment does not, then the assignment is sent again.
#[test]
fn s54_plan_repeats_assignments_of_changed_clusters() {
    let new = with(shop(), vec![resource(&CDS, "X=2", &[(EDS, "X")])]);
    let sending = sent(&shop(), &new);
    assert_eq!(lines(&sending), ["cds ~X", "eds =X"]);
}

/// Given a route that moves to a cluster whose secret does not exist, then the hold timer delays the route, and the
/// plan says so.
#[test]
fn s53_plan_shows_what_the_hold_timer_delays() {
    let new = with(
        shop(),
        vec![
            resource(&RDS, "main=2", &[(CDS, "Y")]),
            resource(&CDS, "Y=1", &[(EDS, "Y"), (SDS, "key")]),
            resource(&EDS, "Y=1", &[]),
        ],
    );
    let sending = sent(&shop(), &new);
    let route = lines(&sending);
    let route = route.iter().find(|line| line.starts_with("rds")).unwrap();
    assert!(route.ends_with("after sds key overdue"), "{route}");
    assert_eq!(sending.delay.as_secs(), 15);
    let key = &sending.steps.last().unwrap().after.last().unwrap();
    assert!(key.missing);
}

/// Given a secret that exists, then the route waits for it, without a timer.
#[test]
fn s51_plan_sends_a_secret_before_its_route() {
    let new = with(
        shop(),
        vec![
            resource(&RDS, "main=2", &[(CDS, "Y")]),
            resource(&CDS, "Y=1", &[(EDS, "Y"), (SDS, "key")]),
            resource(&EDS, "Y=1", &[]),
            resource(&SDS, "key=1", &[]),
        ],
    );
    let sending = sent(&shop(), &new);
    assert_eq!(
        lines(&sending),
        [
            "cds +Y",
            "eds +Y",
            "sds +key",
            "rds ~main after cds Y after eds Y after sds key",
        ]
    );
    assert!(sending.is_complete && sending.delay.is_zero());
}

/// Given a route that no listener refers to, then no client asks for it.
#[test]
fn s55_plan_names_what_no_client_asks_for() {
    let new = with(shop(), vec![resource(&RDS, "orphan=1", &[])]);
    let sending = sent(&shop(), &new);
    assert_eq!(lines(&sending), [""; 0]);
    assert_eq!(sending.not_requested, [(RDS, "orphan".into())]);
    let listener = resource(&LDS, "front=2", &[(RDS, "main"), (RDS, "orphan")]);
    let sending = sent(&shop(), &with(new, vec![listener]));
    assert_eq!(lines(&sending), ["lds ~front", "rds +orphan"]);
    assert!(sending.not_requested.is_empty());
}

/// Given ten thousand other resources, then the steps are the same: only what is connected with the change is
/// simulated.
#[test]
fn s51_plan_of_a_large_state_is_that_of_its_part() {
    let other = |at: usize| resource(&CDS, &format!("other-{at}=1"), &[]);
    let many: Vec<_> = (0..10_000).map(other).collect();
    let new = with(shop(), vec![resource(&RDS, "main=2", &[(CDS, "X")])]);
    let (old_all, new_all) = (
        [shop(), many.clone()].concat(),
        [new.clone(), many].concat(),
    );
    assert_eq!(sent(&old_all, &new_all), sent(&shop(), &new));
}
