//! Tests of change sets, and of the encoding of resources.

use std::path::Path;
use std::time::Duration;

use oxds_types::{
    ApiVersion,
    discovery::{DeltaDiscoveryResponse, DiscoveryResponse},
};
use prost::Message;

use super::*;

mod wire;

const CDS: ResourceType = ResourceType::CLUSTER;

fn resource(name: &str, content: &str) -> Arc<Resource> {
    Arc::new(Resource::new(CDS, name, content.as_bytes()))
}

fn set(
    snapshot: &Arc<Snapshot>,
    name: &str,
    content: &str,
) -> (Arc<Snapshot>, Vec<ChangedResource>) {
    let upserts = vec![resource(name, content)];
    snapshot.apply(ChangeSet {
        upserts,
        ..ChangeSet::default()
    })
}

fn form(protocol: Protocol) -> Form {
    Form {
        protocol,
        api: ApiVersion::V3,
        ttl: false,
    }
}

#[test]
fn s27_empty_configuration_counts_as_loaded() {
    let unloaded = Snapshot::unloaded();
    let (loaded, changed) = unloaded.apply(ChangeSet::default());
    assert!(!unloaded.is_loaded() && loaded.is_loaded() && changed.is_empty());
}

#[test]
fn unchanged_content_is_no_change() {
    let (one, changed) = set(&Snapshot::unloaded(), "A", "1");
    assert_eq!(
        changed,
        [ChangedResource {
            resource_type: CDS,
            name: "A".into()
        }]
    );
    let (same, changed) = set(&one, "A", "1");
    assert!(changed.is_empty() && Arc::ptr_eq(&one, &same));
    let removals = vec![(CDS, "absent".into())];
    let (same, _) = one.apply(ChangeSet {
        removals,
        ..ChangeSet::default()
    });
    assert!(Arc::ptr_eq(&one, &same));
}

#[test]
fn s49_new_ttl_is_a_change_with_the_same_version() {
    let short = Resource::new(CDS, "A", b"1").with_ttl(Duration::from_secs(1));
    assert_ne!(short, *resource("A", "1"));
    assert_eq!(short.version(), resource("A", "1").version());
}

#[test]
fn origin_is_no_part_of_the_content() {
    let origin = ResourceOrigin {
        document: Path::new("a.yaml").into(),
        position: None,
    };
    let placed = Resource::new(CDS, "A", b"1").with_origin(origin.clone());
    assert_eq!(placed, *resource("A", "1"));
    assert_eq!(placed.origin(), Some(&origin));
}

#[test]
fn s69_removals_come_first_and_last_upsert_wins() {
    let (one, _) = set(&Snapshot::unloaded(), "A", "1");
    let changes = ChangeSet {
        upserts: vec![resource("A", "2"), resource("A", "3")],
        removals: vec![(CDS, "A".into())],
    };
    assert!(!changes.is_empty());
    let (after, changed) = one.apply(changes);
    assert_eq!(changed.len(), 1);
    assert_eq!(after.get(&CDS, "A").unwrap().value(), "3");
    assert_eq!(
        one.get(&CDS, "A").unwrap().value(),
        "1",
        "a snapshot is immutable"
    );
}

/// Given clusters a, b and a listener. When all resources, or all clusters, are replaced by b and c, then all others of
/// that scope are removed, and the equal one does not change.
#[test]
fn replacing_contains_only_the_differences() {
    let (before, _) = Snapshot::unloaded().apply(
        [resource("a", "1"), resource("b", "1")]
            .into_iter()
            .collect::<ChangeSet>()
            .put(Resource::new(ResourceType::LISTENER, "l", b"1")),
    );
    let changed = |resource_type: Option<&ResourceType>| {
        let next = [resource("b", "1"), resource("c", "1")];
        let (_, changed) = before.apply(ChangeSet::replacing(&before, resource_type, next));
        let names = changed.iter().map(|one| one.name.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(changed(None), ["a", "c", "l"]);
    assert_eq!(changed(Some(&CDS)), ["a", "c"]);
}

/// Given new resources in no order, one of them twice; then the later one wins, and equal ones are not in the change
/// set.
#[test]
fn replacing_leaves_out_equal_resources() {
    let held: ChangeSet = ["a", "b", "c", "d"]
        .map(|name| resource(name, "1"))
        .into_iter()
        .collect();
    let (before, _) = Snapshot::unloaded().apply(held);
    let next = [
        ("e", "1"),
        ("c", "2"),
        ("b", "7"),
        ("a", "1"),
        ("b", "1"),
        ("c", "3"),
    ];
    let changes = ChangeSet::replacing(
        &before,
        None,
        next.map(|(name, value)| resource(name, value)),
    );
    let upserts = changes
        .upserts
        .iter()
        .map(|one| (&**one.name(), one.value()));
    let mut upserts: Vec<_> = upserts.collect();
    upserts.sort_unstable();
    assert_eq!(upserts, [("c", "3".into()), ("e", "1".into())]);
    assert_eq!(changes.removals, [(CDS, "d".into())]);
}

/// Given an EDS cluster made by a program; then it refers to its assignment.
#[test]
fn resource_of_message_has_its_references() {
    use envoy_types::pb::envoy::config::cluster::v3::{
        Cluster, cluster::ClusterDiscoveryType, cluster::EdsClusterConfig,
    };
    use envoy_types::pb::envoy::config::core::v3::{ConfigSource, config_source};
    let ads = config_source::ConfigSourceSpecifier::Ads(Default::default());
    let cluster = Cluster {
        name: "blue".into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(3)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ConfigSource {
                config_source_specifier: Some(ads),
                ..ConfigSource::default()
            }),
            service_name: "blue-endpoints".into(),
        }),
        ..Cluster::default()
    };
    let resource = Resource::of(&cluster).unwrap();
    assert_eq!(resource.value(), cluster.encode_to_vec());
    assert!(resource.refers_to(&ResourceType::ENDPOINT, "blue-endpoints"));
    assert!(Resource::of(&Cluster::default()).is_err());
    assert_eq!(&**Resource::named("x", &cluster).unwrap().name(), "x");
}

#[test]
fn unchanged_types_are_shared() {
    let (one, _) = set(&Snapshot::unloaded(), "A", "1");
    let other = Arc::new(Resource::new(ResourceType::LISTENER, "L", b"1"));
    let (two, _) = one.apply(ChangeSet {
        upserts: vec![other],
        removals: vec![],
    });
    assert!(Arc::ptr_eq(one.of_type(&CDS), two.of_type(&CDS)));
    assert_eq!(two.types().count(), 2);
}

#[test]
fn resource_is_encoded_once_for_sotw_and_delta() {
    let resource = resource("A", "content");
    let delta = DeltaDiscoveryResponse::decode(resource.element(form(Protocol::Delta))).unwrap();
    let [in_delta] = &delta.resources[..] else {
        panic!("{delta:?}")
    };
    assert_eq!(
        (&*in_delta.name, &*in_delta.version),
        ("A", resource.version().as_str())
    );

    let sotw = DiscoveryResponse::decode(resource.element(form(Protocol::Sotw))).unwrap();
    assert_eq!(sotw.resources, [in_delta.resource.clone().unwrap()]);
    assert_eq!(
        (&*sotw.resources[0].type_url, &*sotw.resources[0].value),
        (CDS.type_url(), &b"content"[..])
    );
    let (whole, part) = (
        resource.element(form(Protocol::Delta)),
        resource.element(form(Protocol::Sotw)),
    );
    assert!(
        whole.as_ptr_range().contains(&part.as_ptr()),
        "the same bytes"
    );
}

#[test]
fn empty_message_is_a_resource() {
    let resource = resource("A", "");
    let sotw = DiscoveryResponse::decode(resource.element(form(Protocol::Sotw))).unwrap();
    assert_eq!(sotw.resources[0].type_url, CDS.type_url());
    assert_eq!(
        (sotw.resources[0].value.len(), resource.value().len()),
        (0, 0)
    );
}

#[test]
fn sotw_body_without_some_resources() {
    let names = ["A", "B", "C", "D"].map(Arc::<str>::from);
    let upserts = names.iter().map(|name| resource(name, name)).collect();
    let (snapshot, _) = Snapshot::unloaded().apply(ChangeSet {
        upserts,
        removals: vec![],
    });
    let left = |out: &[usize]| {
        let out = out.iter().map(|&index| &names[index]);
        let pieces = snapshot
            .of_type(&CDS)
            .full_without(form(Protocol::Sotw), out);
        let bytes: Vec<u8> = pieces.iter().flat_map(|body| body.bytes.to_vec()).collect();
        let count: usize = pieces.iter().map(|body| body.resources).sum();
        let response = DiscoveryResponse::decode(&bytes[..]).unwrap();
        assert_eq!(response.resources.len(), count);
        let values = response
            .resources
            .into_iter()
            .map(|any| String::from_utf8(any.value.to_vec()));
        values.map(Result::unwrap).collect::<String>()
    };
    assert_eq!(
        [left(&[]), left(&[0]), left(&[1, 2]), left(&[3])],
        ["ABCD", "BCD", "AD", "ABC"]
    );
    assert_eq!(left(&[0, 1, 2, 3]), "");
}

/// Given the state of all nodes, and that of a group. When sessions take all resources, then they are encoded once for
/// all nodes; for the group, the body is kept only when a second session asks.
#[test]
fn p12_first_body_of_a_group_is_not_kept() {
    let form = Form {
        protocol: Protocol::Delta,
        ttl: false,
        api: oxds_types::ApiVersion::V3,
    };
    let (root, _) = set(&Snapshot::unloaded(), "A", "1");
    let encodes = |snapshot: &Arc<Snapshot>| {
        let before = snapshot.counters().read().encodes;
        snapshot.of_type(&CDS).full(form);
        snapshot.counters().read().encodes - before
    };
    assert_eq!([1, 0, 0], [0; 3].map(|_| encodes(&root)));
    let over = ChangeSet::default().put(resource("B", "1"));
    let group = root.overlaid(over);
    assert_eq!([1, 1, 0, 0], [0; 4].map(|_| encodes(&group)));
    let (group, _) = set(&group, "A", "2");
    assert_eq!([1, 1, 0, 0], [0; 4].map(|_| encodes(&group)));
}
