//! Changes that clients refuse, and what is served then (S-80).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::rollback::{NackedVersion, Rollback, RollbackKey, RolledBack};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_core::time::Instant;
use oxds_types::{ResourceType, Version};

/// A store, what is served of it, and clients that have accepted some versions.
struct Served {
    machine: Rollback,
    served: BTreeMap<RollbackKey, Arc<Resource>>,
    accepted: Vec<Version>,
}

fn resource(name: &str, content: &str) -> Arc<Resource> {
    Arc::new(Resource::new(
        ResourceType::CLUSTER,
        name,
        content.as_bytes(),
    ))
}

impl Served {
    fn new(threshold: usize) -> Self {
        Self {
            machine: Rollback::new(threshold),
            served: BTreeMap::new(),
            accepted: Vec::new(),
        }
    }

    /// The store changes `a` for all nodes, or for a group.
    fn store(&mut self, group: Option<&str>, content: &str) {
        let (group, new) = (group.map(Arc::from), resource("a", content));
        let changes = ChangeSet::default().put(new);
        let (served, accepted) = (&self.served, &self.accepted);
        let admitted = self.machine.handle_changes(
            group.as_ref(),
            changes,
            |key| served.get(key).cloned(),
            |old| accepted.contains(&old.version()),
        );
        for resource in admitted.upserts {
            self.serve(group.clone(), resource);
        }
    }

    fn serve(&mut self, group: Option<Arc<str>>, resource: Arc<Resource>) {
        let key = RollbackKey {
            group,
            resource_type: ResourceType::CLUSTER,
            name: Arc::clone(resource.name()),
        };
        self.served.insert(key, resource);
    }

    fn accept(&mut self, content: &str) {
        self.accepted.push(resource("a", content).version());
    }

    fn refuse(&mut self, node: &str, content: &str) -> Vec<RolledBack> {
        let nack = NackedVersion {
            node,
            resource_type: &ResourceType::CLUSTER,
            name: "a",
            version: resource("a", content).version(),
            reason: &"no".into(),
        };
        let rolled_back = self.machine.handle_nack(Instant::EPOCH, nack);
        for one in &rolled_back {
            self.serve(one.key.group.clone(), Arc::clone(&one.last_good));
        }
        rolled_back
    }

    #[track_caller]
    fn expect(&self, group: Option<&str>, content: &str) {
        let mut places = self.served.iter();
        let found = places.find(|(key, _)| key.group.as_deref() == group);
        assert_eq!(found.unwrap().1.version(), resource("a", content).version());
    }
}

/// Given a resource that all accepted; when it changes and a node refuses that; then it returns, and the withdrawal is
/// told with node and reason; the store's repeating itself changes nothing; a later change is tried anew, and its
/// nack returns to the same.
#[test]
fn s80_a_refused_change_returns_to_what_all_accepted() {
    let mut server = Served::new(0);
    server.store(None, "1");
    server.accept("1");
    server.store(None, "2");
    let rolled_back = server.refuse("edge-1", "2");
    assert_eq!(rolled_back.len(), 1);
    assert_eq!(&*rolled_back[0].reason, "no");
    assert_eq!(rolled_back[0].nacked_by, ["edge-1".into()]);
    server.expect(None, "1");
    assert_eq!(
        server.machine.rolled_back().collect::<Vec<_>>(),
        rolled_back
    );

    server.store(None, "2");
    server.expect(None, "1");
    server.store(None, "3");
    server.expect(None, "3");
    assert_eq!(server.machine.rolled_back().count(), 0);
    assert_eq!(server.refuse("edge-1", "3").len(), 1);
    server.expect(None, "1");
}

/// Given a threshold of one node; then one that refuses a change, be it twice, does not take it back; two do.
#[test]
fn s80_more_nodes_than_the_threshold_take_a_change_back() {
    let mut server = Served::new(1);
    server.store(None, "1");
    server.accept("1");
    server.store(None, "2");
    assert!(server.refuse("edge-1", "2").is_empty());
    assert!(server.refuse("edge-1", "2").is_empty());
    server.expect(None, "2");
    assert_eq!(server.refuse("edge-2", "2").len(), 1);
    server.expect(None, "1");
    assert!(server.refuse("edge-3", "2").is_empty());
}

/// Given changes that came so fast that not all clients accepted what was in between; then the version returned to is
/// the last that all did accept.
#[test]
fn s80_what_not_all_accepted_is_not_returned_to() {
    let mut server = Served::new(0);
    server.store(None, "1");
    server.accept("1");
    server.store(None, "2");
    server.store(None, "3");
    server.refuse("edge-1", "3");
    server.expect(None, "1");
    server.store(None, "4");
    server.accept("4");
    server.store(None, "5");
    server.refuse("edge-1", "5");
    server.expect(None, "4");
}

/// Given a resource that is new, or that nobody accepted before it changed; then there is nothing to return to. A late
/// nack of what was replaced since does nothing.
#[test]
fn s80_without_a_good_version_nothing_is_taken_back() {
    let mut server = Served::new(0);
    server.store(None, "1");
    assert!(server.refuse("edge-1", "1").is_empty());
    server.store(None, "2");
    assert!(server.refuse("edge-1", "2").is_empty());
    server.accept("2");
    server.store(None, "3");
    assert!(server.refuse("edge-1", "2").is_empty());
    server.expect(None, "3");
}

/// Given a file that is put back to what all had accepted, or deleted; then nothing is rolled_back any more.
#[test]
fn s80_mending_the_file_ends_it() {
    let mut server = Served::new(0);
    for deleted in [false, true] {
        server.store(None, "1");
        server.accept("1");
        server.store(None, "2");
        server.refuse("edge-1", "2");
        assert_eq!(server.machine.rolled_back().count(), 1);
        if deleted {
            let removal = ChangeSet::default().remove(ResourceType::CLUSTER, "a");
            let admitted = server
                .machine
                .handle_changes(None, removal, |_| None, |_| false);
            assert_eq!(admitted.removals.len(), 1);
        } else {
            server.store(None, "1");
        }
        assert_eq!(server.machine.rolled_back().count(), 0);
    }
}

/// Given a group that has the resource otherwise than the others; then what its nodes refuse is taken back there alone.
#[test]
fn s80_a_group_returns_by_itself() {
    let mut server = Served::new(0);
    for group in [None, Some("canary")] {
        server.store(group, "1");
    }
    server.accept("1");
    server.store(Some("canary"), "2");
    server.store(None, "3");
    server.refuse("edge-1", "2");
    server.expect(Some("canary"), "1");
    server.expect(None, "3");
}
