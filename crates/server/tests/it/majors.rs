//! Four majors of a resource type from one cache (V-54).

use std::sync::Arc;

use oxds_server::{
    Cache, ChangeSet, OlderMajors, OlderMajorsError, Reference, Resource, ResourceType, Server,
};
use oxds_types::discovery::DiscoveryRequest;
use oxds_types::translate::{Options, Translator};
use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use crate::client::{DELTA, SOTW, Stream, ack, ack_delta, ask, subscribe};
use crate::{Running, admin, until};

const MAJORS: [u32; 4] = [1, 2, 3, 4];

/// Quotas in four majors. The number of a field says since when it exists, but `limit`, which v3 moved.
fn pool() -> DescriptorPool {
    let fields = [
        "int64 limit = 2;",
        "int64 limit = 2; string owner = 3;",
        "reserved 2; string owner = 3; int64 limit = 4;",
        "reserved 2; string owner = 3; int64 limit = 4; repeated string regions = 5;",
    ];
    let mut pool = DescriptorPool::new();
    for (major, fields) in MAJORS.iter().zip(fields) {
        let text = format!(
            "syntax = \"proto3\"; package acme.quota.v{major}; message Quota {{ string name = 1; {fields} }}"
        );
        let path = format!("acme/quota/v{major}/quota.proto");
        let file = protox_parse::parse(&path, &text).unwrap();
        pool.add_file_descriptor_proto(file).unwrap();
    }
    pool
}

fn quota_type(major: u32) -> ResourceType {
    ResourceType::from_message(&format!("acme.quota.v{major}.Quota")).0
}

fn majors() -> OlderMajors {
    let pool = pool();
    let older = MAJORS[..3].iter().map(|major| {
        let major = format!("v{major}").parse().unwrap();
        let translator = Translator::new(pool.clone(), pool.clone(), major, Options::default());
        Arc::new(translator.unwrap())
    });
    OlderMajors::new([quota_type(4)], older).unwrap()
}

async fn running() -> Running {
    let cache = Cache::with_majors(Default::default(), majors());
    Running::start(Server::builder().cache(cache)).await
}

/// A quota of v4.
fn quota(name: &str, limit: i64, regions: &[&str]) -> Resource {
    let descriptor = pool().get_message_by_name("acme.quota.v4.Quota").unwrap();
    let mut message = DynamicMessage::new(descriptor);
    message.set_field_by_name("name", Value::String(name.into()));
    message.set_field_by_name("limit", Value::I64(limit));
    let regions = regions.iter().map(|one| Value::String((*one).into()));
    message.set_field_by_name("regions", Value::List(regions.collect()));
    let bytes = prost::Message::encode_to_vec(&message);
    Resource::new(quota_type(4), name, &bytes)
}

/// Reads the limit of a quota of this major, as its clients do.
fn limit(type_url: &str, value: &[u8], major: u32) -> i64 {
    assert_eq!(type_url, quota_type(major).type_url());
    let message = format!("acme.quota.v{major}.Quota");
    let descriptor = pool().get_message_by_name(&message).unwrap();
    let message = DynamicMessage::decode(descriptor, value).unwrap();
    assert_eq!(message.unknown_fields().count(), 0);
    message
        .get_field_by_name("limit")
        .unwrap()
        .as_i64()
        .unwrap()
}

/// Given a quota of v4, and clients of v1 to v4 over SotW and delta, when it changes, then each gets it in its major,
/// and it was encoded once for each major and protocol, not for each client.
#[tokio::test]
async fn v54_four_majors_are_served_from_one_cache() {
    let server = running().await;
    server
        .cache
        .apply(ChangeSet::default().put(quota("gold", 100, &[])));
    let mut clients = Vec::new();
    for major in MAJORS {
        let url = quota_type(major).type_url().to_owned();
        for _ in 0..3 {
            let mut sotw = Stream::open(server.grpc, SOTW).await;
            sotw.send(&ask(&url, &["gold"]));
            let response = sotw.sotw().await;
            sotw.send(&DiscoveryRequest {
                resource_names: vec!["gold".into()],
                ..ack(&response)
            });
            let any = &response.resources[0];
            assert_eq!(limit(&any.type_url, &any.value, major), 100);
            let mut delta = Stream::open(server.grpc, DELTA).await;
            delta.send(&subscribe(&url, &["gold"]));
            let response = delta.delta().await;
            delta.send(&ack_delta(&response));
            let any = response.resources[0].resource.as_ref().unwrap();
            assert_eq!(limit(&any.type_url, &any.value, major), 100);
            clients.push((major, sotw, delta));
        }
    }
    let before = server.metric("oxds_encodes_total").await;
    server
        .cache
        .apply(ChangeSet::default().put(quota("gold", 200, &[])));
    for (major, sotw, delta) in &mut clients {
        let any = sotw.sotw().await.resources.remove(0);
        assert_eq!(limit(&any.type_url, &any.value, *major), 200);
        let any = delta.delta().await.resources.remove(0).resource.unwrap();
        assert_eq!(limit(&any.type_url, &any.value, *major), 200);
    }
    let encoded = server.metric("oxds_encodes_total").await - before;
    assert!(encoded <= 8, "{encoded} encodings for 24 clients");
}

/// Given a quota that v3 cannot express, then clients of v3 do not get it, and the status has the reason. When it
/// becomes expressible, then they get it; when it is removed, then from all majors.
#[tokio::test]
async fn v54_resource_a_major_cannot_express_is_withheld() {
    let server = running().await;
    let changes = ChangeSet::default().put(quota("gold", 1, &[]));
    server.cache.apply(changes.put(quota("silver", 1, &["eu"])));
    let url = quota_type(3).type_url().to_owned();
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(&url, &[]));
    let first = stream.delta().await;
    stream.send(&ack_delta(&first));
    let names: Vec<_> = first.resources.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["gold"]);
    until("the status shows the reason", async || {
        let status = admin::json(server.http).await.to_string();
        status
            .contains("regions: acme.quota.v3.Quota has no such field")
            .then_some(())
    })
    .await;

    server
        .cache
        .apply(ChangeSet::default().put(quota("silver", 1, &[])));
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    assert_eq!(response.resources[0].name, "silver");
    server
        .cache
        .apply(ChangeSet::default().remove(quota_type(4), "silver"));
    assert_eq!(stream.delta().await.removed_resources, ["silver"]);
    let snapshot = server.cache.snapshot();
    for major in MAJORS {
        assert_eq!(snapshot.of_type(&quota_type(major)).collection().len(), 1);
    }
}

/// Given a program that replaces all resources, when nothing has changed, then nothing is sent, in no major. References
/// lead to the same major. Resources of an older major cannot be set.
#[test]
fn v54_older_majors_follow_the_newest() {
    let cache = Cache::with_majors(Default::default(), majors());
    let referrer = || {
        let to = Reference {
            resource_type: quota_type(4),
            name: "gold".into(),
        };
        quota("silver", 1, &[]).with_references([to])
    };
    let revision = cache
        .replace([quota("gold", 1, &[]), referrer()])
        .revision();
    let same = cache.replace([quota("gold", 1, &[]), referrer()]);
    assert_eq!(same.revision(), revision);
    let older = same.get(&quota_type(2), "silver").unwrap();
    assert!(older.refers_to(&quota_type(2), "gold"));
    cache.apply(ChangeSet::default().put(Resource::new(quota_type(1), "own", b"")));
    assert!(cache.snapshot().get(&quota_type(1), "own").is_none());
    cache.replace([quota("gold", 1, &[])]);
    assert!(cache.snapshot().get(&quota_type(1), "silver").is_none());
}

#[test]
fn v54_types_that_have_no_older_major_are_errors() {
    let pool = pool();
    let translator = |major: &str| {
        let major = major.parse().unwrap();
        let made = Translator::new(pool.clone(), pool.clone(), major, Options::default());
        Arc::new(made.unwrap())
    };
    let error = |types: ResourceType, older: Vec<Arc<Translator>>| {
        OlderMajors::new([types], older).unwrap_err()
    };
    let unknown = ResourceType::from_message("acme.other.v4.Thing").0;
    assert_eq!(
        error(unknown.clone(), vec![translator("v3")]),
        OlderMajorsError::NoOlder(unknown)
    );
    assert_eq!(
        error(quota_type(1), vec![translator("v1")]),
        OlderMajorsError::NoOlder(quota_type(1))
    );
    assert_eq!(
        error(ResourceType::CLUSTER, vec![translator("v3")]),
        OlderMajorsError::EnvoyType(ResourceType::CLUSTER)
    );
    let four = ["v1", "v2", "v3", "v3"].map(translator).to_vec();
    assert_eq!(error(quota_type(4), four), OlderMajorsError::TooMany(4));
}
