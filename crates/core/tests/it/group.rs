//! Groups of nodes (S-74): membership, and the resources that nodes see.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::google::protobuf::{Struct, Value, value};
use oxds_core::group::{Definition, GroupUpdate, Groups, Membership, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, Resource, Snapshot};
use oxds_types::discovery::Node;
use oxds_types::{Glob, ResourceType};

fn id(pattern: &str) -> NodeMatcher {
    NodeMatcher {
        id: Some(Glob::new(pattern)),
        ..NodeMatcher::default()
    }
}

fn cluster(pattern: &str) -> NodeMatcher {
    NodeMatcher {
        cluster: Some(Glob::new(pattern)),
        ..NodeMatcher::default()
    }
}

fn region(region: &str) -> NodeMatcher {
    NodeMatcher {
        region: Some(region.to_owned()),
        ..NodeMatcher::default()
    }
}

fn metadata(path: &str, value: &str) -> NodeMatcher {
    NodeMatcher {
        metadata: [(path.to_owned(), value.to_owned())].into(),
        ..NodeMatcher::default()
    }
}

fn value(kind: value::Kind) -> Value {
    Value { kind: Some(kind) }
}

/// `edge-1` of cluster `edge` in `eu`, with metadata.
fn node() -> Node {
    let app = Struct {
        fields: [
            (
                "tier".to_owned(),
                value(value::Kind::StringValue("gold".into())),
            ),
            ("shard".to_owned(), value(value::Kind::NumberValue(7.0))),
        ]
        .into(),
    };
    let fields = [
        ("app".to_owned(), value(value::Kind::StructValue(app))),
        ("a.b".to_owned(), value(value::Kind::BoolValue(true))),
    ];
    Node {
        id: "edge-1".into(),
        cluster: "edge".into(),
        locality: Some(Locality {
            region: "eu".into(),
            ..Locality::default()
        }),
        metadata: Some(Struct {
            fields: fields.into(),
        }),
        ..Node::default()
    }
}

#[test]
fn s74_nodes_are_matched_by_id_cluster_locality_and_metadata() {
    for (matcher, matches) in [
        (NodeMatcher::default(), true),
        (id("edge-1"), true),
        (id("edge-*"), true),
        (id("edge"), false),
        (cluster("e*"), true),
        (cluster("shop"), false),
        (region("eu"), true),
        (region("us"), false),
        (metadata("app.tier", "gold"), true),
        (metadata("app.tier", "silver"), false),
        (metadata("app.shard", "7"), true),
        (metadata("a.b", "true"), true),
        (metadata("app", "gold"), false),
        (metadata("app.tier.x", "gold"), false),
    ] {
        assert_eq!(matcher.matches(&node()), matches, "{matcher:?}");
    }
    let both = NodeMatcher {
        id: Some(Glob::new("edge-*")),
        ..cluster("shop")
    };
    assert!(!both.matches(&node()), "all conditions must hold");
    assert!(!region("eu").matches(&Node::default()));
}

#[test]
fn s74_id_is_more_specific_than_pattern_than_cluster() {
    let ascending = [
        NodeMatcher::default(),
        metadata("app.tier", "gold"),
        region("eu"),
        cluster("e*"),
        cluster("edge"),
        id("*"),
        id("edge-*"),
        id("edge-1"),
        NodeMatcher {
            id: Some(Glob::new("edge-1")),
            ..region("eu")
        },
    ];
    assert!(ascending.is_sorted_by(|a, b| a.specificity() < b.specificity()));
}

#[test]
fn s74_exclusive_matchers_do_not_overlap() {
    for (a, b, meet) in [
        (id("a"), id("a"), true),
        (id("a"), id("b"), false),
        (id("a*"), id("b"), false),
        (id("a*"), id("*b"), true),
        (region("eu"), region("us"), false),
        (region("eu"), cluster("x"), true),
        (metadata("a", "1"), metadata("a", "2"), false),
        (metadata("a", "1"), metadata("b", "2"), true),
    ] {
        assert_eq!(
            (a.may_overlap(&b), b.may_overlap(&a)),
            (meet, meet),
            "{a:?} {b:?}"
        );
    }
}

fn resource(name: &str, content: u8) -> Arc<Resource> {
    Arc::new(Resource::new(ResourceType::CLUSTER, name, &[0x10, content]))
}

fn upserts(resources: &[(&str, u8)]) -> ChangeSet {
    let resources = resources
        .iter()
        .map(|(name, content)| resource(name, *content));
    ChangeSet {
        upserts: resources.collect(),
        ..ChangeSet::default()
    }
}

fn set(name: &str, matcher: NodeMatcher, resources: &[(&str, u8)]) -> GroupUpdate {
    GroupUpdate {
        name: name.into(),
        definition: Definition::Set(Box::new(matcher)),
        changes: upserts(resources),
    }
}

/// A root, two groups of which `node` is a member, and one of which it is not; with the view of the node.
struct World {
    root: Arc<Snapshot>,
    groups: Groups,
    members: Membership,
    view: Arc<Snapshot>,
}

impl World {
    fn new() -> Self {
        let (root, _) = Snapshot::unloaded().apply(upserts(&[("a", 0), ("b", 0), ("c", 0)]));
        let mut groups = Groups::default();
        groups.update(vec![
            set("edge", cluster("edge"), &[("b", 1), ("c", 1), ("d", 1)]),
            set("edge-1", id("edge-1"), &[("c", 2)]),
            set("shop", cluster("shop"), &[("a", 3)]),
        ]);
        let members = groups.of(&node());
        let (view, _) = root.apply(groups.overlay(&members));
        Self {
            root,
            groups,
            members,
            view,
        }
    }

    /// Applies changes of the root and of groups; returns whether the view of the node changed.
    fn change(&mut self, changes: ChangeSet, groups: Vec<GroupUpdate>) -> bool {
        let (root, changed) = self.root.apply(changes);
        let touched = self.groups.update(groups);
        let changed: Vec<_> = changed
            .into_iter()
            .map(|one| (one.resource_type, one.name))
            .collect();
        let seen = self
            .groups
            .seen_by(&self.members, &root, &changed, &touched);
        let before = Arc::clone(&self.view);
        self.root = root;
        self.view = before.apply(seen).0;
        // The result equals a view that is made from scratch.
        let (rebuilt, _) = self.root.apply(self.groups.overlay(&self.members));
        let version = |snapshot: &Snapshot| {
            snapshot
                .of_type(&ResourceType::CLUSTER)
                .collection()
                .version()
        };
        assert_eq!(version(&rebuilt), version(&self.view));
        !Arc::ptr_eq(&before, &self.view)
    }

    fn sees(&self) -> Vec<(String, u8)> {
        let collection = self.view.of_type(&ResourceType::CLUSTER).collection();
        let seen = collection.iter();
        seen.map(|r| (r.name().to_string(), r.value()[1])).collect()
    }
}

fn removal(name: &str) -> ChangeSet {
    ChangeSet {
        removals: vec![(ResourceType::CLUSTER, name.into())],
        ..ChangeSet::default()
    }
}

fn changed(name: &str, changes: ChangeSet) -> Vec<GroupUpdate> {
    vec![GroupUpdate {
        name: name.into(),
        changes,
        ..GroupUpdate::default()
    }]
}

#[test]
fn s74_most_specific_group_wins_over_root() {
    let world = World::new();
    assert_eq!(&*world.members, [Arc::from("edge-1"), Arc::from("edge")]);
    let seen = [("a", 0), ("b", 1), ("c", 2), ("d", 1)];
    assert_eq!(
        world.sees(),
        seen.map(|(name, content)| (name.to_owned(), content))
    );
}

#[test]
fn s74_change_is_visible_unless_hidden_by_a_group() {
    let mut world = World::new();
    assert!(world.change(upserts(&[("a", 9)]), vec![]));
    assert!(
        !world.change(upserts(&[("b", 9), ("c", 9)]), vec![]),
        "hidden"
    );
    assert!(!world.change(ChangeSet::default(), changed("edge", upserts(&[("c", 8)]))));
    assert!(!world.change(ChangeSet::default(), changed("shop", upserts(&[("b", 8)]))));
    let seen = |world: &World, name: &str| {
        let mut all = world.sees().into_iter();
        all.find(|(other, _)| other == name)
            .map(|(_, content)| content)
    };
    assert_eq!(seen(&world, "c"), Some(2));
    // The hiding resources are removed: the next group becomes visible, and last the root.
    assert!(world.change(ChangeSet::default(), changed("edge-1", removal("c"))));
    assert_eq!(seen(&world, "c"), Some(8));
    assert!(world.change(ChangeSet::default(), changed("edge", removal("c"))));
    assert_eq!(seen(&world, "c"), Some(9));
    assert!(world.change(removal("c"), vec![]));
    assert_eq!(seen(&world, "c"), None);
}

#[test]
fn s74_change_of_root_and_group_is_atomic() {
    let mut world = World::new();
    let before = world.view.revision().get();
    assert!(world.change(upserts(&[("a", 5)]), changed("edge", upserts(&[("b", 5)]))));
    assert_eq!(world.view.revision().get(), before + 1);
}

#[test]
fn s74_groups_are_added_and_removed() {
    let mut groups = World::new().groups;
    let unset = |name: &str| GroupUpdate {
        name: name.into(),
        definition: Definition::Unset,
        ..GroupUpdate::default()
    };
    let mut moved = |updates: Vec<GroupUpdate>| groups.update(updates).matchers;
    assert_eq!(moved(changed("edge", upserts(&[("e", 1)]))), []);
    let as_before = vec![set("edge", cluster("edge"), &[])];
    assert_eq!(moved(as_before), []);
    let wider = vec![set("edge", cluster("e*"), &[])];
    assert_eq!(moved(wider), [cluster("edge"), cluster("e*")]);
    assert_eq!(moved(vec![unset("edge-1")]).len(), 1);
    assert_eq!(&*groups.of(&node()), [Arc::from("edge")]);
    groups.update(changed("edge-1", removal("c")));
    assert_eq!(groups.iter().count(), 2, "nothing is left of it");
}

#[test]
fn s74_groups_share_equal_resources() {
    let mut groups = Groups::default();
    groups.update(vec![
        set("x", id("x"), &[("a", 1), ("b", 1)]),
        set("y", id("y"), &[("a", 1), ("b", 2)]),
    ]);
    let named = |name: &str| Node {
        id: name.into(),
        ..Node::default()
    };
    let of = |name: &str| {
        let mut all = groups.overlay(&groups.of(&named(name))).upserts;
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    };
    let (x, y) = (of("x"), of("y"));
    assert!(Arc::ptr_eq(&x[0], &y[0]));
    assert!(!Arc::ptr_eq(&x[1], &y[1]));
}

#[test]
fn v51_user_agent_can_be_matched() {
    use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
    let matcher = |pattern: &str| NodeMatcher {
        user_agent: Some(Glob::new(pattern)),
        ..NodeMatcher::default()
    };
    let version = UserAgentVersionType::UserAgentVersion("1.40.2".to_owned());
    let node = Node {
        user_agent_name: "envoy".to_owned(),
        user_agent_version_type: Some(version),
        ..Node::default()
    };
    assert!(matcher("envoy 1.40.*").matches(&node));
    assert!(!matcher("envoy 1.39.*").matches(&node));
    assert!(!matcher("grpc*").matches(&Node::default()));
    assert!(matcher("envoy 1.40.2").specificity() > NodeMatcher::default().specificity());
    assert!(!matcher("a").may_overlap(&matcher("b")));
}
