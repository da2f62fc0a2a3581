//! Dangerous changes (S-70).

use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints,
};
use oxds_core::preview::{Changes, Danger, State};
use oxds_core::snapshot::Resource;

use super::{CDS, EDS, RDS, group, resource, shop, state, with, without};

fn dangers(old: &State, new: &State) -> Vec<String> {
    let changes = Changes::between(old, new);
    let dangers = Danger::of(old, new, &changes).into_iter();
    dangers
        .map(|danger| format!("{}: {danger}", danger.rule()))
        .collect()
}

#[test]
fn s70_removed_cluster_that_is_still_named_is_dangerous() {
    let new = with(
        without(shop(), &CDS, "X"),
        vec![
            resource(&CDS, "Y=1", &[]),
            resource(&RDS, "b=1", &[(CDS, "X")]),
        ],
    );
    assert_eq!(
        dangers(&state(&shop()), &state(&new)),
        ["still-named: cds X is removed, but still named by rds b, rds main"]
    );
    let safe = with(
        new,
        vec![
            resource(&RDS, "main=2", &[(CDS, "Y")]),
            resource(&RDS, "b=2", &[(CDS, "Y")]),
        ],
    );
    assert_eq!(dangers(&state(&shop()), &state(&safe)), [""; 0]);
}

/// Given groups, then a resource that a group refers to is looked for in what its nodes see.
#[test]
fn s70_removed_cluster_may_be_named_in_a_group() {
    let routes = || resource(&RDS, "own=1", &[(CDS, "X"), (CDS, "G")]);
    let cluster = |name: &str| resource(&CDS, &format!("{name}=1"), &[]);
    let spare = cluster("spare");
    let old = State::new(
        &[cluster("X"), spare.clone()],
        &[
            group("edge", "e", &[routes(), cluster("G")]),
            group("safe", "s", &[routes(), cluster("X"), cluster("G")]),
        ],
    );
    let new = State::new(
        std::slice::from_ref(&spare),
        &[
            group("edge", "e", &[routes(), spare.clone()]),
            group("safe", "s", &[routes(), cluster("X"), cluster("G")]),
        ],
    );
    assert_eq!(
        dangers(&old, &new),
        [
            "still-named: cds G is removed, but still named by rds own (group edge)",
            "still-named: cds X is removed, but still named by rds own (group edge)",
        ]
    );
}

#[test]
fn s70_type_without_resources_is_dangerous() {
    let new = without(shop(), &EDS, "X");
    assert_eq!(
        dangers(&state(&shop()), &state(&new)),
        [
            "loses-all: eds loses all of its 1 resources",
            "still-named: eds X is removed, but still named by cds X",
        ]
    );
    let many = |count: usize| -> Vec<_> {
        let one = |at| resource(&CDS, &format!("{at}=1"), &[]);
        (0..count).map(one).collect()
    };
    assert_eq!(
        dangers(&state(&many(12)), &state(&many(4))),
        ["loses-most: cds loses 8 of its 12 resources"]
    );
    assert_eq!(dangers(&state(&many(9)), &state(&many(1))), [""; 0]);
}

#[test]
fn s70_group_without_nodes_is_dangerous() {
    let old = State::new(&[], &[group("edge", "e", &[resource(&CDS, "X=1", &[])])]);
    let new = State::new(&[], &[]);
    assert_eq!(
        dangers(&old, &new),
        [
            "loses-all: cds loses all of its 1 resources (group edge)",
            "no-nodes: group edge has no nodes any more",
        ]
    );
}

#[test]
fn s70_assignment_without_endpoints_is_dangerous() {
    let of = |count: usize| {
        let assignment = ClusterLoadAssignment {
            cluster_name: "X".to_owned(),
            endpoints: vec![LocalityLbEndpoints {
                lb_endpoints: vec![LbEndpoint::default(); count],
                ..LocalityLbEndpoints::default()
            }],
            ..ClusterLoadAssignment::default()
        };
        state(&[Resource::of(&assignment).unwrap().into()])
    };
    assert_eq!(
        dangers(&of(2), &of(0)),
        ["no-endpoints: eds X loses all of its 2 endpoints"]
    );
    assert_eq!(dangers(&of(2), &of(1)), [""; 0]);
}
