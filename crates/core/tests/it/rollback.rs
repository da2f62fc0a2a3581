//! Rollback of changes that clients NACK (S-80).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::rollback::{NackedVersion, Rollback, RollbackKey, RolledBack};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_core::time::Instant;
use oxds_types::{ResourceType, Version};

/// A store, the resources that are served, and the versions that clients have ACKed.
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

/// Given a resource that all clients ACKed. When it changes and a node NACKs the change, then the old version is served again, and
/// the rollback has node and reason. The same content from the store changes nothing. A later change is on trial again, and its
/// NACK returns to the same version.
#[test]
fn s80_nacked_change_returns_to_version_acked_by_all() {
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

/// Given a threshold of one node; then one node that NACKs a change, even twice, does not roll it back; two nodes do.
#[test]
fn s80_more_nacks_than_threshold_roll_back() {
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

/// Given changes so fast that not all clients ACKed a version in between; then the rollback returns to the last version that all
/// ACKed.
#[test]
fn s80_version_not_acked_by_all_is_not_restored() {
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

/// Given a new resource, or one that no client ACKed before it changed; then there is no version to return to. A late NACK of a
/// replaced version does nothing.
#[test]
fn s80_without_good_version_nothing_is_rolled_back() {
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

/// Given a file that is restored to the version that all ACKed, or deleted; then nothing is rolled back any more.
#[test]
fn s80_fixed_file_ends_the_rollback() {
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

/// Given a group with its own version of a resource; then a NACK of its nodes rolls back this version alone.
#[test]
fn s80_group_rolls_back_by_itself() {
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
