//! Three replicas, and clients that NACK a publish.

use std::time::Duration;

use oxds_etcd::Segment;
use oxds_etcd::rollback::ObstacleKind;

use super::world::{Clients, World, resource};

/// A world with three replicas that serve a former content to these clients, and a publish of the content `bad`.
fn three(threshold: usize, clients: [Clients; 3]) -> (World, [usize; 3]) {
    let mut world = World::new(threshold);
    let replicas = clients.map(|clients| world.start(clients));
    world.quiet();
    world.publish("bad");
    world.quiet();
    (world, replicas)
}

fn ids(numbers: &[usize]) -> Vec<Segment> {
    let id = |number: &usize| Segment::replica(&format!("r{number}")).expect("valid");
    numbers.iter().map(id).collect()
}

const ALL: [Clients; 3] = [Clients::Accepting; 3];

/// given NACKs on two replicas whose sum passes the threshold / then one decision is made, at once, and all replicas
/// serve the former version, those without clients and new ones too.
#[test]
fn g38_nacks_of_replicas_add_up_to_one_decision() {
    let clients = [Clients::Accepting, Clients::Accepting, Clients::Absent];
    let (mut world, [first, second, _]) = three(2, clients);
    world.nack(first);
    world.nack(second);
    world.quiet();
    assert_eq!((world.decisions, world.decision()), (0, None));
    assert_eq!(world.reports(), 3, "each replica answers");
    world.nack(first);
    // The key of the first report rests.
    world.pass(500);
    world.quiet();
    assert_eq!(world.decisions, 1);
    let decision = world.decision().expect("a decision");
    assert_eq!((decision.nodes, &*decision.reason), (3, "no"));
    world.start(Clients::Accepting);
    world.quiet();
    assert_eq!(world.served(), vec![Some(resource("0")); 4]);
    assert_eq!(world.decisions, 1);
}

/// given a node that NACKs on two replicas, because it has moved / then it counts once; another node makes the
/// decision.
#[test]
fn g38_moved_node_counts_once() {
    let (mut world, [first, second, third]) = three(1, ALL);
    world.nack_of(first, "moved");
    world.nack_of(second, "moved");
    world.quiet();
    assert_eq!((world.decisions, world.reports()), (0, 3));
    world.nack_of(third, "other");
    world.pass(500);
    world.quiet();
    assert_eq!(world.decision().map(|decision| decision.nodes), Some(2));
}

/// given a replica that does not answer / then there is no decision; after 2 s this is reported. When its lease ends,
/// the others decide.
#[test]
fn g38_silent_replica_prevents_a_decision() {
    let (mut world, [first, second, silent]) = three(0, ALL);
    world.nack(first);
    for _ in 0..3 {
        for number in [first, second] {
            world.handle(number);
            world.write(number, false);
            while world.deliver(number) {}
        }
    }
    assert_eq!((world.decisions, world.obstacles(first)), (0, vec![]));
    let until = world.timeout(first).expect("a time");
    assert!(until <= world.now + Duration::from_secs(2));
    world.pass(2000);
    world.handle(first);
    let reported = vec![ObstacleKind::Silent(ids(&[silent]))];
    assert_eq!((world.decisions, world.obstacles(first)), (0, reported));
    world.kill(silent);
    world.quiet();
    assert_eq!((world.decisions, world.obstacles(first)), (1, vec![]));
}

/// given a replica whose clients lack the former version / then there is no decision, and it is reported at once.
#[test]
fn g38_lacking_replica_prevents_a_decision() {
    let clients = [Clients::Accepting, Clients::Accepting, Clients::Lacking];
    let (mut world, [first, _, lacking]) = three(0, clients);
    world.nack(first);
    world.quiet();
    let reported = vec![ObstacleKind::Lacking(ids(&[lacking]))];
    assert_eq!((world.decisions, world.obstacles(first)), (0, reported));
    assert_eq!(world.timeout(first), None, "it waits for a change");
    world.pass(10_000);
    world.quiet();
    assert_eq!(world.decisions, 0);
}

/// given a replica that merged two publishes into one / when clients NACK it / then the replicas know different former
/// versions: no decision.
#[test]
fn g38_replicas_that_disagree_do_not_decide() {
    let mut world = World::new(0);
    let [first, second] = [Clients::Accepting; 2].map(|clients| world.start(clients));
    world.quiet();
    world.publish("between");
    while world.deliver(first) {}
    world.accept(first);
    world.publish("bad");
    while world.deliver(first) {}
    world.skip(second);
    world.nack(first);
    world.quiet();
    let mut reported = world.obstacles(first);
    assert_eq!((world.decisions, reported.len()), (0, 1));
    let Some(ObstacleKind::Disagreeing(mut replicas)) = reported.pop() else {
        panic!("another obstacle");
    };
    replicas.sort_unstable();
    assert_eq!(replicas, ids(&[first, second]));
}

/// given a decision / when other content is published / then it is void, and deleted with the reports; the new content
/// is served.
#[test]
fn g38_publish_of_other_content_voids_the_decision() {
    let (mut world, [first, ..]) = three(0, ALL);
    world.nack(first);
    world.quiet();
    assert_eq!(world.decisions, 1);
    world.publish("fixed");
    world.quiet();
    world.pass(500);
    world.quiet();
    assert_eq!(world.served(), vec![Some(resource("fixed")); 3]);
    assert_eq!((world.decision(), world.reports()), (None, 0));
    world.publish("bad");
    world.quiet();
    assert_eq!(
        world.served(),
        vec![Some(resource("bad")); 3],
        "on trial again"
    );
}

/// given a decision under way / when a replica starts before it takes effect / then it does not: the new one has not
/// answered.
#[test]
fn g38_decision_waits_for_a_replica_that_has_started() {
    let (mut world, [first, second, third]) = three(0, ALL);
    world.nack(first);
    for number in [first, second, third, first] {
        world.handle(number);
        if number != first || world.reports() == 0 {
            world.write(number, false);
        }
        for other in [first, second, third] {
            while world.deliver(other) {}
        }
    }
    let late = world.start(Clients::Lacking);
    world.write(first, false);
    assert_eq!(world.decisions, 0);
    world.pass(500);
    world.quiet();
    let reported = vec![ObstacleKind::Lacking(ids(&[late]))];
    assert_eq!((world.decisions, world.obstacles(first)), (0, reported));
}

/// given a decision under way / when a replica withdraws its report before it takes effect / then it does not.
#[test]
fn g38_decision_needs_the_reports_that_were_counted() {
    let (mut world, [first, second, third]) = three(0, ALL);
    world.nack(first);
    for number in [first, second, third] {
        world.handle(number);
        world.write(number, false);
        for other in [first, second, third] {
            while world.deliver(other) {}
        }
    }
    world.pass(500);
    world.handle(first);
    let report = world.etcd.keys("/p/n/").remove(2).key;
    world
        .etcd
        .delete(std::str::from_utf8(&report).expect("UTF-8"));
    world.write(first, false);
    assert_eq!(world.decisions, 0);
    world.pass(500);
    world.quiet();
    assert_eq!(world.decisions, 1);
}

/// given nothing that is NACKed / then no machine writes or wakes.
#[test]
fn g38_without_nacks_nothing_is_written() {
    let (mut world, [first, ..]) = three(0, ALL);
    let before = world.etcd.revision();
    world.quiet();
    assert_eq!(
        (world.etcd.revision(), world.timeout(first)),
        (before, None)
    );
}
