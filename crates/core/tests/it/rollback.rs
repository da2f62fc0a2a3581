//! Rollback of changes that clients NACK (S-80).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_core::rollback::{
    Acceptance, NackedVersion, Rollback, RollbackKey, RolledBack, Served, StoreChanges,
};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_core::time::Instant;
use oxds_types::reference::Reference;
use oxds_types::{ResourceType, Version};

/// A store, the resources that are served, and the versions that clients have ACKed.
struct Server {
    machine: Rollback,
    world: World,
}

/// Served resources, and the versions that the clients accepted. Clients see everything.
#[derive(Default)]
struct World {
    served: BTreeMap<RollbackKey, Arc<Resource>>,
    accepted: BTreeSet<Version>,
}

impl Served for World {
    fn served(&self, key: &RollbackKey) -> Option<Arc<Resource>> {
        self.served.get(key).cloned()
    }

    fn acceptance(&self, key: &RollbackKey) -> Acceptance {
        match self.served.get(key) {
            Some(served) if self.accepted.contains(&served.version()) => Acceptance::All,
            Some(_) => Acceptance::Lacking,
            None => Acceptance::Unseen,
        }
    }
}

fn resource(name: &str, content: &str) -> Arc<Resource> {
    Arc::new(Resource::new(
        ResourceType::CLUSTER,
        name,
        content.as_bytes(),
    ))
}

/// Returns a route that needs these clusters.
fn route(name: &str, clusters: &[&str]) -> Arc<Resource> {
    let references = clusters.iter().map(|&cluster| Reference {
        resource_type: ResourceType::CLUSTER,
        name: cluster.into(),
    });
    let content = clusters.join(" ");
    let route = Resource::new(ResourceType::ROUTE, name, content.as_bytes());
    Arc::new(route.with_references(references.collect::<Vec<_>>()))
}

impl Server {
    fn new(threshold: usize) -> Self {
        Self {
            machine: Rollback::new(threshold),
            world: World::default(),
        }
    }

    /// The store changes `a` for all nodes, or for a group.
    fn store(&mut self, group: Option<&str>, content: &str) {
        let changes = ChangeSet::default().put(resource("a", content));
        self.apply(group, changes);
    }

    fn apply(&mut self, group: Option<&str>, changes: ChangeSet) {
        let group = group.map(Arc::from);
        let update = vec![StoreChanges { group, changes }];
        let touched = self.machine.touched(&update);
        assert!(!touched.is_empty());
        for admitted in self.machine.handle_update(update, &self.world) {
            let ChangeSet { upserts, removals } = admitted.changes;
            for (resource_type, name) in removals {
                let group = admitted.group.clone();
                let key = RollbackKey {
                    resource_type,
                    name,
                    group,
                };
                self.world.served.remove(&key);
            }
            for resource in upserts {
                self.serve(admitted.group.clone(), resource);
            }
        }
    }

    fn serve(&mut self, group: Option<Arc<str>>, resource: Arc<Resource>) {
        let key = RollbackKey {
            resource_type: resource.resource_type().clone(),
            name: Arc::clone(resource.name()),
            group,
        };
        self.world.served.insert(key, resource);
    }

    fn accept(&mut self, content: &str) {
        let version = resource("a", content).version();
        self.world.accepted.insert(version);
    }

    /// All clients ACK everything that is served.
    fn accept_all(&mut self) {
        let versions = self.world.served.values().map(|served| served.version());
        self.world.accepted.extend(versions);
    }

    fn refuse(&mut self, node: &str, content: &str) -> Vec<RolledBack> {
        self.refuse_resource(node, &resource("a", content))
    }

    fn refuse_resource(&mut self, node: &str, resource: &Resource) -> Vec<RolledBack> {
        let nack = NackedVersion {
            node,
            resource_type: resource.resource_type(),
            name: resource.name(),
            version: resource.version(),
            reason: &"no".into(),
        };
        let rolled_back = self.machine.handle_nack(Instant::EPOCH, nack);
        for one in &rolled_back {
            match &one.last_good {
                Some(last_good) => self.serve(one.key.group.clone(), Arc::clone(last_good)),
                None => drop(self.world.served.remove(&one.key)),
            }
        }
        rolled_back
    }

    #[track_caller]
    fn expect(&self, group: Option<&str>, content: &str) {
        let mut places = self.world.served.iter();
        let found = places.find(|(key, _)| key.group.as_deref() == group);
        assert_eq!(found.unwrap().1.version(), resource("a", content).version());
    }

    /// The server is restarted: the store has these resources, and nothing is known but what was saved.
    fn restart(&mut self, stored: &[Arc<Resource>]) {
        let saved = self.machine.saved().collect();
        *self = Self::new(0);
        self.machine.restore(saved);
        self.apply(None, stored.iter().cloned().collect());
    }

    /// Returns the served content, by name.
    fn contents(&self) -> Vec<String> {
        let served = self.world.served.values();
        let text = |one: &Arc<Resource>| String::from_utf8(one.value().to_vec()).unwrap();
        served
            .map(|one| format!("{}={}", one.name(), text(one)))
            .collect()
    }
}

/// Given a store with clusters `one` and `other`, and route `r` to cluster `one`, all accepted.
fn rollout() -> Server {
    let mut server = Server::new(0);
    let changes = ChangeSet::default()
        .put(resource("one", "1"))
        .put(resource("other", "1"))
        .put(route("r", &["one"]));
    server.apply(None, changes);
    server.accept_all();
    server
}

/// Given one update that changes a route, adds the cluster that it needs, removes the cluster that it needed, and
/// changes another cluster. When a client NACKs the new cluster, then route and both clusters return to what they were,
/// and the other cluster stays changed. When the store changes the new cluster, then all of the update is served again.
#[test]
fn s80_change_set_is_rolled_back_as_a_whole() {
    let mut server = rollout();
    let changes = ChangeSet::default()
        .put(resource("two", "1"))
        .put(resource("other", "2"))
        .put(route("r", &["two"]))
        .remove(ResourceType::CLUSTER, "one");
    server.apply(None, changes);
    assert_eq!(server.contents(), ["other=2", "two=1", "r=two"]);
    let rolled_back = server.refuse_resource("edge", &resource("two", "1"));
    assert_eq!(rolled_back.len(), 3);
    for one in &rolled_back {
        assert_eq!(one.nacked, (ResourceType::CLUSTER, "two".into()));
    }
    assert_eq!(server.contents(), ["one=1", "other=2", "r=one"]);

    server.apply(None, ChangeSet::default().put(resource("two", "2")));
    assert_eq!(server.contents(), ["other=2", "two=2", "r=two"]);
    assert_eq!(server.machine.rolled_back().count(), 0);
    server.refuse_resource("edge", &resource("two", "2"));
    assert_eq!(server.contents(), ["one=1", "other=2", "r=one"]);
}

/// Given one update that changes resources without references between them, then the NACK of one returns that one
/// alone.
#[test]
fn s80_unrelated_changes_are_rolled_back_one_by_one() {
    let mut server = rollout();
    let changes = ChangeSet::default()
        .put(resource("one", "2"))
        .put(resource("other", "2"));
    server.apply(None, changes);
    assert_eq!(
        server
            .refuse_resource("edge", &resource("other", "2"))
            .len(),
        1
    );
    assert_eq!(server.contents(), ["one=2", "other=1", "r=one"]);
}

/// Given a change of a route on top of a change of its cluster that no client has accepted yet, then both return
/// together. Given that they had accepted it, then the route returns alone.
#[test]
fn s80_unaccepted_change_joins_the_next_one() {
    for is_accepted in [false, true] {
        let mut server = rollout();
        let changes = ChangeSet::default()
            .put(resource("one", "2"))
            .put(route("r", &["one", "other"]));
        server.apply(None, changes);
        if is_accepted {
            server.accept_all();
        }
        let second = route("r", &["one", "other", "other"]);
        server.apply(None, ChangeSet::default().put(Arc::clone(&second)));
        server.refuse_resource("edge", &second);
        let expected = if is_accepted {
            ["one=2", "other=1", "r=one other"]
        } else {
            ["one=1", "other=1", "r=one"]
        };
        assert_eq!(server.contents(), expected);
    }
}

/// Given a part whose old version a client lacks, then the change cannot return as a whole, and stays.
#[test]
fn s80_change_with_a_part_that_cannot_return_stays() {
    let mut server = rollout();
    server.apply(None, ChangeSet::default().put(resource("one", "2")));
    let changes = ChangeSet::default()
        .put(resource("one", "3"))
        .put(route("r", &["one", "other"]));
    server
        .world
        .accepted
        .remove(&route("r", &["one"]).version());
    server.apply(None, changes);
    assert!(
        server
            .refuse_resource("edge", &route("r", &["one", "other"]))
            .is_empty()
    );
    assert_eq!(server.contents(), ["one=3", "other=1", "r=one other"]);
}

/// Given a rollback, when the server is restarted and the store has the same, then the same is served as before, and
/// the rollback is shown. When the store is changed, then it ends.
#[test]
fn s80_rollback_survives_a_restart() {
    let mut server = rollout();
    let changes = ChangeSet::default()
        .put(resource("two", "1"))
        .put(route("r", &["two"]))
        .remove(ResourceType::CLUSTER, "one");
    server.apply(None, changes);
    let before = server.refuse_resource("edge", &resource("two", "1"));
    let stored = [
        resource("other", "1"),
        resource("two", "1"),
        route("r", &["two"]),
    ];
    server.restart(&stored);
    assert_eq!(server.contents(), ["one=1", "other=1", "r=one"]);
    assert_eq!(server.machine.rolled_back().collect::<Vec<_>>(), before);
    server.apply(None, stored.iter().cloned().collect());
    assert_eq!(server.contents(), ["one=1", "other=1", "r=one"]);
    server.apply(None, ChangeSet::default().put(resource("two", "2")));
    assert_eq!(server.contents(), ["other=1", "two=2", "r=two"]);
    assert_eq!(server.machine.rolled_back().count(), 0);
}

/// Given a rollback, when the store was changed while the server was down, then that is served. Its NACK returns to the
/// version of before. When all of it was removed, then nothing is left of the rollback.
#[test]
fn s80_store_changed_during_a_restart_ends_the_rollback() {
    let rolled_back = || {
        let mut server = rollout();
        server.apply(None, ChangeSet::default().put(resource("one", "2")));
        assert_eq!(
            server.refuse_resource("edge", &resource("one", "2")).len(),
            1
        );
        server
    };
    let mut server = rolled_back();
    server.restart(&[resource("one", "3")]);
    assert_eq!(server.contents(), ["one=3"]);
    assert_eq!(server.machine.rolled_back().count(), 0);
    assert_eq!(
        server.refuse_resource("edge", &resource("one", "3")).len(),
        1
    );
    assert_eq!(server.contents(), ["one=1"]);

    let mut server = rolled_back();
    server.restart(&[resource("other", "1")]);
    assert_eq!(server.contents(), ["other=1"]);
    server.apply(None, ChangeSet::default().put(resource("one", "2")));
    assert_eq!(server.contents(), ["one=2", "other=1"]);
    assert_eq!(
        (
            server.machine.rolled_back().count(),
            server.machine.saved().count()
        ),
        (0, 0)
    );
}

/// Given a resource that all clients ACKed. When it changes and a node NACKs the change, then the old version is served
/// again, and the rollback has node and reason. The same content from the store changes nothing. A later change is on
/// trial again, and its NACK returns to the same version.
#[test]
fn s80_nacked_change_returns_to_version_acked_by_all() {
    let mut server = Server::new(0);
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
    let mut server = Server::new(1);
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

/// Given changes so fast that not all clients ACKed a version in between; then the rollback returns to the last version
/// that all ACKed.
#[test]
fn s80_version_not_acked_by_all_is_not_restored() {
    let mut server = Server::new(0);
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

/// Given a new resource, or one that no client ACKed before it changed; then a rollback has no version to return to. A
/// late NACK of a replaced version does nothing.
#[test]
fn s80_without_good_version_nothing_is_rolled_back() {
    let mut server = Server::new(0);
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
    let mut server = Server::new(0);
    for deleted in [false, true] {
        server.store(None, "1");
        server.accept("1");
        server.store(None, "2");
        server.refuse("edge-1", "2");
        assert_eq!(server.machine.rolled_back().count(), 1);
        if deleted {
            let removal = ChangeSet::default().remove(ResourceType::CLUSTER, "a");
            server.apply(None, removal);
            assert!(server.world.served.is_empty());
        } else {
            server.store(None, "1");
        }
        assert_eq!(server.machine.rolled_back().count(), 0);
    }
}

/// Given a group with its own version of a resource; then a NACK of its nodes rolls back this version alone.
#[test]
fn s80_group_rolls_back_by_itself() {
    let mut server = Server::new(0);
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
