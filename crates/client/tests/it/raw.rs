//! All resources of a type as bytes: `watch_all_raw`, which a relay uses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::{
    Bootstrap, ClientPool, Options, Protocol, RawResource, RawWatchAll, Update, WatchErrorReason,
    XdsClient,
};
use oxds_testkit::resources::cluster;
use oxds_testkit::{ControlPlane, SOON};
use oxds_types::ResourceType;
use oxds_types::discovery::{self, Any, Resource as Wrapper};
use prost::Message as _;
use tokio::time::timeout;

use oxds_testkit::folder_server::FolderServer;

fn client(server: &ControlPlane) -> XdsClient {
    let bootstrap = Bootstrap::builder(server.address().to_string()).build();
    let options = Options::default().with_resource_ttl(true);
    ClientPool::with_options(bootstrap.unwrap(), options).client("raw")
}

async fn next(watch: &mut RawWatchAll) -> (Arc<str>, Update<RawResource>) {
    let update = timeout(SOON, watch.next()).await;
    update.expect("an update in time").expect("the client runs")
}

async fn resource(watch: &mut RawWatchAll) -> (Arc<str>, RawResource) {
    match next(watch).await {
        (name, Update::Changed(Ok(resource))) => (name, resource),
        other => panic!("{other:?}"),
    }
}

/// A cluster with an unknown field, in a `Resource` with a TTL in seconds.
fn with_ttl(name: &str, version: &str, seconds: Option<i64>) -> (Any, Vec<u8>) {
    let mut body = cluster(name, "e");
    // Field 9999, which no generated message has.
    let unknown = [0xfa, 0xf0, 0x04, 0x01, b'x'];
    body.value = [&body.value[..], &unknown].concat().into();
    let bytes = body.value.to_vec();
    let wrapper = Wrapper {
        name: name.to_owned(),
        version: version.to_owned(),
        resource: Some(body),
        ttl: seconds.map(|seconds| discovery::Duration { seconds, nanos: 0 }),
        ..Wrapper::default()
    };
    let any = Any {
        type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource".to_owned(),
        value: wrapper.encode_to_vec().into(),
    };
    (any, bytes)
}

/// Given clusters with an unknown field, one with a TTL / each comes with its name, bytes, version and TTL; a second
/// watch gets them from the cache; the deletion of one comes as an error.
#[tokio::test]
async fn raw_watch_all_gets_bytes_version_and_ttl() {
    let server = ControlPlane::start().await.unwrap();
    let client = client(&server);
    let mut watch = client.watch_all_raw(ResourceType::CLUSTER, "*");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    let ((a, a_bytes), (b, b_bytes)) = (with_ttl("a", "1", Some(60)), with_ttl("b", "2", None));
    stream.respond(&ResourceType::CLUSTER, "v1", vec![a.clone(), b]);
    stream.request().await.unwrap();
    let mut late = client.watch_all_raw(ResourceType::CLUSTER, "*");
    for watch in [&mut watch, &mut late] {
        let found: BTreeMap<_, _> = [resource(watch).await, resource(watch).await].into();
        let (a, b) = (&found["a"], &found["b"]);
        assert_eq!((a.value(), b.value()), (&a_bytes[..], &b_bytes[..]));
        assert_eq!((a.version(), b.version()), ("v1", "v1"));
        assert_eq!((a.ttl(), b.ttl()), (Some(Duration::from_secs(60)), None));
    }

    stream.respond(&ResourceType::CLUSTER, "v2", vec![a]);
    let (name, update) = next(&mut watch).await;
    assert_eq!(&*name, "b");
    assert!(
        matches!(&update, Update::Changed(Err(error)) if error.reason == WatchErrorReason::DoesNotExist),
        "{update:?}"
    );
}

/// Given a read that is dropped while it waits / the update that comes then is not lost.
#[tokio::test]
async fn raw_watch_all_loses_no_update_when_next_is_dropped() {
    let server = ControlPlane::start().await.unwrap();
    let client = client(&server);
    let mut watch = client.watch_all_raw(ResourceType::CLUSTER, "*");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    let dropped = timeout(Duration::from_millis(20), watch.next()).await;
    assert!(dropped.is_err(), "nothing to read yet");
    stream.respond(
        &ResourceType::CLUSTER,
        "v1",
        vec![with_ttl("a", "1", None).0],
    );
    assert_eq!(&*resource(&mut watch).await.0, "a");
}

/// Given delta from a real server / each resource has its own version; a change brings the changed resource alone.
#[tokio::test(flavor = "multi_thread")]
async fn raw_watch_all_over_delta_gets_resource_versions() {
    let cluster = |name: &str, service: &str| {
        format!(
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: EDS
  eds_cluster_config: {{eds_config: {{ads: {{}}}}, service_name: {service}}}
"
        )
    };
    let server = FolderServer::start(&(cluster("a", "one") + &cluster("b", "one")));
    let bootstrap = Bootstrap::builder(server.address().to_string()).build();
    let options = Options::default().with_protocol(Protocol::Delta);
    let client = ClientPool::with_options(bootstrap.unwrap(), options).client("raw");
    let mut watch = client.watch_all_raw(ResourceType::CLUSTER, "*");
    let before: BTreeMap<_, _> = [resource(&mut watch).await, resource(&mut watch).await].into();
    assert_ne!(before["a"].version(), before["b"].version());
    server.write(&(cluster("a", "two") + &cluster("b", "one")));
    let (name, a) = resource(&mut watch).await;
    assert_eq!(&*name, "a");
    assert_ne!(a.version(), before["a"].version());
    assert_ne!(a.value(), before["a"].value());
}
