//! What a change set does, and what a resource looks like on the wire.

use std::time::Duration;

use oxds_types::{
    ApiVersion,
    discovery::{DeltaDiscoveryResponse, DiscoveryResponse},
};
use prost::Message;

use super::*;

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
fn s27_an_empty_configuration_is_a_loaded_one() {
    let unloaded = Snapshot::unloaded();
    let (loaded, changed) = unloaded.apply(ChangeSet::default());
    assert!(!unloaded.is_loaded() && loaded.is_loaded() && changed.is_empty());
}

#[test]
fn content_that_is_served_already_changes_nothing() {
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
fn s49_another_ttl_is_another_resource_of_the_same_version() {
    let short = Resource::new(CDS, "A", b"1").with_ttl(Duration::from_secs(1));
    assert_ne!(short, *resource("A", "1"));
    assert_eq!(short.version(), resource("A", "1").version());
}

#[test]
fn s69_removals_come_before_upserts_and_later_upserts_count() {
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
        "what was published stays as it was"
    );
}

/// Given clusters a, b and a listener; when all, or all clusters, are replaced by b and c; then what is not among them
/// goes, within what was meant; what is equal does not change.
#[test]
fn a_whole_state_becomes_what_differs() {
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

/// Given a whole state, in no order, that names one resource twice; then the later counts, and what is equal already is
/// no part of the change set.
#[test]
fn what_is_equal_is_not_in_the_change_set_at_all() {
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
    upserts.sort();
    assert_eq!(upserts, [("c", "3".into()), ("e", "1".into())]);
    assert_eq!(changes.removals, [(CDS, "d".into())]);
}

/// Given a cluster that a program made, which takes its endpoints from EDS; then it is known to need its assignment.
#[test]
fn a_message_becomes_a_resource_with_its_references() {
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
fn types_that_do_not_change_are_shared() {
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
fn a_resource_is_encoded_once_for_both_variants() {
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
fn an_empty_message_is_a_resource_too() {
    let resource = resource("A", "");
    let sotw = DiscoveryResponse::decode(resource.element(form(Protocol::Sotw))).unwrap();
    assert_eq!(sotw.resources[0].type_url, CDS.type_url());
    assert_eq!(
        (sotw.resources[0].value.len(), resource.value().len()),
        (0, 0)
    );
}

#[test]
fn a_full_state_can_leave_some_out() {
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

/// Given what all nodes see, and what those of a group do; when sessions take all there is; then it is encoded once for
/// all nodes, and kept for those of the group only when a second of them asks.
#[test]
fn p12_what_one_session_of_a_group_took_is_not_kept() {
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
