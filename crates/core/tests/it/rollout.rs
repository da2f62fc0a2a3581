//! Rollouts: what a change did, how far the clients are with it, and what is kept of it.

use std::sync::Arc;
use std::time::Duration;

use oxds_core::rollout::{
    ChangeSort, RolloutContents, RolloutLimits, RolloutNack, RolloutPublish, RolloutSource,
    RolloutState, Rollouts,
};
use oxds_core::snapshot::{ChangeSet, Resource, ResourceKey};
use oxds_core::time::Instant;
use oxds_types::{ResourceType, Version};

fn at(milliseconds: u64) -> Instant {
    Instant::from_epoch(Duration::from_millis(milliseconds))
}

fn key(name: &str) -> ResourceKey {
    (ResourceType::CLUSTER, name.into())
}

fn cluster(name: &str, content: &[u8]) -> Arc<Resource> {
    Arc::new(Resource::new(ResourceType::CLUSTER, name, content))
}

/// A change of these clusters.
fn changed(names: &[&str]) -> RolloutContents {
    let mut contents = RolloutContents::default();
    for name in names {
        contents.add(ChangeSort::Changed, &key(name), None);
    }
    contents
}

fn nack(names: &[&str]) -> RolloutNack {
    RolloutNack {
        node: "n".into(),
        resource_type: ResourceType::CLUSTER,
        names: names.iter().map(|name| Arc::from(*name)).collect(),
        reason: "no".into(),
    }
}

/// Begins a change of cluster `a` at a time, and returns its number.
fn begin(rollouts: &mut Rollouts, milliseconds: u64) -> u64 {
    rollouts.begin(at(milliseconds), RolloutSource::default(), changed(&["a"]))
}

fn numbers(rollouts: &Rollouts, before: Option<u64>) -> Vec<u64> {
    rollouts.before(before).map(|one| one.number).collect()
}

/// Given an edited, an unchanged, a new and a deleted resource, as a store reports them, then each counts once.
#[test]
fn edited_resource_is_one_change() {
    let served = [
        cluster("edited", b"1"),
        cluster("same", b"1"),
        cluster("gone", b"1"),
    ];
    let before = |key: &ResourceKey| -> Option<Version> {
        let same = served.iter().find(|resource| resource.name() == &key.1);
        same.map(|resource| resource.version())
    };
    let changes = ChangeSet {
        upserts: vec![
            cluster("edited", b"2"),
            cluster("same", b"1"),
            cluster("new", b"1"),
            cluster("new", b"2"),
        ],
        removals: ["edited", "same", "gone", "gone", "never"]
            .map(key)
            .to_vec(),
    };
    let mut contents = RolloutContents::default();
    contents.add_changes(&changes, None, before);
    assert_eq!(contents.to_string(), "[cds/new, cds/edited, cds/gone]");
    assert_eq!(contents.counts(), [1, 1, 1]);
}

/// Given a name that looks like the end of the list and another field, then it is in quotes.
#[test]
fn names_do_not_forge_fields() {
    let contents = changed(&["a] origin=x", "b"]);
    assert_eq!(contents.to_string(), "[cds/\"a] origin=x\", cds/b]");
}

#[test]
fn names_are_bounded() {
    let names: Vec<String> = (0..10_000).map(|i| format!("c{:04}", 9_999 - i)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let contents = changed(&names);
    let text = contents.to_string();
    assert!(text.starts_with("[cds/c0000, cds/c0001, "), "{text}");
    assert!(text.ends_with(" cds/c0009, and 9990 more]"), "{text}");
    let of_type = contents.types().next().map(|(_, contents)| contents);
    let changed = &of_type.expect("clusters").changed;
    assert_eq!((changed.count, changed.first.len()), (10_000, 50));
}

/// Given a change that concerns two clients, when the driver reports that both have answered, then the time is known.
#[test]
fn rollout_ends_with_its_last_answer() {
    let mut rollouts = Rollouts::default();
    let number = begin(&mut rollouts, 1_000);
    let state = |rollouts: &Rollouts| rollouts.get(number).expect("kept").state;
    assert_eq!(state(&rollouts), RolloutState::Waking);
    rollouts.woken(number, 2, 0);
    let (clients, lost) = (2, 0);
    assert_eq!(state(&rollouts), RolloutState::Open { clients, lost });
    rollouts.answered(at(1_250), number);
    let after = Duration::from_millis(250);
    assert_eq!(state(&rollouts), RolloutState::Answered { clients, after });
}

/// Given a change that concerns no client, then it is complete, and no answer changes that.
#[test]
fn rollout_without_a_client_has_no_time() {
    let mut rollouts = Rollouts::default();
    let number = begin(&mut rollouts, 0);
    rollouts.woken(number, 0, 0);
    rollouts.answered(at(1), number);
    let state = rollouts.get(number).expect("kept").state;
    assert_eq!(state, RolloutState::NoClient);
}

/// Given a client that is too far behind to be followed, then the change stays open although the others have answered.
#[test]
fn rollout_with_a_lost_client_stays_open() {
    let mut rollouts = Rollouts::default();
    let number = begin(&mut rollouts, 0);
    rollouts.woken(number, 3, 1);
    rollouts.answered(at(1), number);
    let state = rollouts.get(number).expect("kept").state;
    let (clients, lost) = (3, 1);
    assert_eq!(state, RolloutState::Open { clients, lost });
}

/// Given two changes that a client has not answered, when it NACKs a resource of one, then only that one has the NACK;
/// a NACK without a name is about both.
#[test]
fn rollout_has_the_nacks_of_its_resources() {
    let mut rollouts = Rollouts::default();
    let first = rollouts.begin(at(0), RolloutSource::default(), changed(&["a"]));
    let second = rollouts.begin(at(1), RolloutSource::default(), changed(&["b"]));
    let both = [first, second];
    assert_eq!(rollouts.nacked(&both, &nack(&["a", "x"])), [first]);
    assert_eq!(rollouts.nacked(&both, &nack(&[])), both);
    let of_routes = RolloutNack {
        resource_type: ResourceType::ROUTE,
        ..nack(&[])
    };
    assert!(rollouts.nacked(&both, &of_routes).is_empty());
    assert!(rollouts.nacked(&[7], &nack(&[])).is_empty());
    let nacked = both.map(|number| rollouts.get(number).expect("kept").nacked);
    assert_eq!(nacked, [2, 1]);
    let kept = &rollouts.get(first).expect("kept").nacks[0];
    assert_eq!(&*kept.names, [Arc::from("a")], "the first name");
}

/// Given a change whose names are not all kept, then a NACK of any name of its type is about it.
#[test]
fn rollout_of_many_names_may_have_any() {
    let names: Vec<String> = (0..100).map(|i| format!("c{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rollouts = Rollouts::default();
    let number = rollouts.begin(at(0), RolloutSource::default(), changed(&names));
    assert_eq!(rollouts.nacked(&[number], &nack(&["c99"])), [number]);
}

#[test]
fn rollouts_are_bounded_in_number() {
    let limits = RolloutLimits {
        rollouts: 3,
        ..RolloutLimits::default()
    };
    let mut rollouts = Rollouts::with_limits(limits);
    for milliseconds in 0..5 {
        begin(&mut rollouts, milliseconds);
    }
    assert_eq!(numbers(&rollouts, None), [5, 4, 3]);
    assert_eq!(numbers(&rollouts, Some(4)), [3]);
    assert_eq!(numbers(&rollouts, Some(1)), [0; 0]);
    // Those that are gone are answered, too.
    rollouts.woken(1, 1, 0);
    rollouts.answered(at(9), 1);
    assert!(rollouts.get(1).is_none());
}

/// Given changes with large texts, and clients with large reasons, then the oldest changes go; the latest stays in any
/// case.
#[test]
fn rollouts_are_bounded_in_bytes() {
    let limits = RolloutLimits {
        bytes: 4_000,
        ..RolloutLimits::default()
    };
    let mut rollouts = Rollouts::with_limits(limits);
    let numbers_of = |rollouts: &Rollouts| numbers(rollouts, None);
    for milliseconds in 0..4 {
        begin(&mut rollouts, milliseconds);
    }
    assert_eq!(numbers_of(&rollouts).len(), 4);
    let large = RolloutNack {
        node: "ü".repeat(1_000_000).into(),
        reason: "ü".repeat(1_000_000).into(),
        ..nack(&["a"])
    };
    for _ in 0..100 {
        rollouts.nacked(&[4], &large);
    }
    assert_eq!(numbers_of(&rollouts), [4]);
    let rollout = rollouts.get(4).expect("kept");
    assert_eq!((rollout.nacked, rollout.nacks.len()), (100, 5));
    let text = &rollout.nacks[0].reason;
    assert!(text.len() < 500 && text.ends_with('…'), "{}", text.len());
    begin(&mut rollouts, 9);
    assert_eq!(numbers_of(&rollouts), [5]);
}

/// Given a change without contents, such as an update with findings only, then it has a number, and no line.
#[test]
fn rollout_without_contents_is_not_kept() {
    let mut rollouts = Rollouts::default();
    let nothing = RolloutContents::default();
    assert_eq!(rollouts.begin(at(0), RolloutSource::default(), nothing), 1);
    assert!(rollouts.is_empty());
    assert_eq!(begin(&mut rollouts, 1), 2);
    assert_eq!(rollouts.len(), 1);
}

#[test]
fn rollout_sources_are_bounded() {
    let source = RolloutSource::new("etcd")
        .documents((0..50).map(|i| format!("{i}{}", "x".repeat(10_000))))
        .publishes((0..50).map(|seq| RolloutPublish {
            seq,
            note: "x".repeat(10_000),
            ..RolloutPublish::default()
        }));
    assert_eq!((source.documents.len(), source.more_documents), (20, 30));
    assert_eq!(source.publishes.len(), 20);
    assert!(source.documents[0].len() < 500 && source.publishes[0].note.len() < 500);
}
