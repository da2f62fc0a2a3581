//! The cache in a program that makes its own resources.

use std::io::ErrorKind;
use std::sync::Arc;

use oxds_server::{
    BindError, Builder, Cache, ChangeSet, DirStore, FileSink, Glob, LoadReports, Node, NodeMatcher,
    Resource, ResourceType, Security, Server, Snapshot, Update,
};
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};

use crate::client::{CDS, DELTA, SOTW, Stream, ack, ack_delta, subscribe};
use crate::{Running, cluster, until, upsert};

fn edge() -> NodeMatcher {
    NodeMatcher {
        cluster: Some(Glob::exact("edge")),
        ..NodeMatcher::default()
    }
}

fn ask(cluster: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node {
            cluster: cluster.into(),
            ..Node::default()
        }),
        ..subscribe(CDS, &[])
    }
}

async fn names(stream: &mut Stream) -> Vec<String> {
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    let names = response.resources.into_iter().map(|resource| resource.name);
    let mut names: Vec<_> = names.chain(response.removed_resources).collect();
    names.sort();
    names
}

/// Given a client with a and b, when the program replaces the whole state, then the client gets only the difference. It
/// is not woken if nothing differs (P-11).
#[tokio::test]
async fn replace_sends_only_the_difference() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&ask(""));
    assert_eq!(names(&mut stream).await, ["a", "b"]);

    let woken = server.cache.wakeups();
    server.cache.replace([cluster("b", b""), cluster("a", b"")]);
    assert_eq!(server.cache.wakeups(), woken);
    server.cache.replace([cluster("b", b""), cluster("c", b"")]);
    assert_eq!(names(&mut stream).await, ["a", "c"]);
}

/// Given a source of clusters and one of listeners, when each replaces its type, then the other type does not change.
#[test]
fn replace_type_leaves_other_types_alone() {
    let cache = Cache::new();
    cache.replace_type(&ResourceType::CLUSTER, [cluster("a", b"")]);
    let listener = Resource::new(ResourceType::LISTENER, "l", b"");
    cache.replace_type(&ResourceType::LISTENER, [listener]);
    cache.replace_type(&ResourceType::CLUSTER, [cluster("b", b"")]);
    let has = |resource_type, name| cache.snapshot().get(&resource_type, name).is_some();
    assert!(
        has(ResourceType::LISTENER, "l")
            && has(ResourceType::CLUSTER, "b")
            && !has(ResourceType::CLUSTER, "a")
    );
}

/// Given groups but no configuration for all nodes yet, when clients subscribe, then they wait: a response would remove
/// resources that they have from another replica. When that configuration is loaded, they get both at once.
#[tokio::test]
async fn s26_s74_clients_wait_while_only_groups_are_loaded() {
    let server = Running::start(Server::builder()).await;
    let cache = &server.cache;
    cache.replace_group("edge", edge(), [cluster("e", b"")]);
    let mut streams = Vec::new();
    for node in ["edge", "inner"] {
        let stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&ask(node));
        streams.push(stream);
    }
    until("both clients are known", async || {
        let status = crate::admin::json(server.http).await;
        (status["nodes"].as_array()?.len() == 2 && status["nodes"][1]["cluster"] != "")
            .then_some(())
    })
    .await;
    cache.replace_group("edge", edge(), [cluster("e", b""), cluster("f", b"")]);
    assert!(!cache.snapshot().is_loaded());

    cache.replace([cluster("a", b"")]);
    assert_eq!(names(&mut streams[0]).await, ["a", "e", "f"]);
    assert_eq!(names(&mut streams[1]).await, ["a"]);
}

/// Given a group with a client, when the group is replaced, then the client gets the difference. When the group is
/// removed, the stream ends, so that the client reconnects and gets the resources of all nodes.
#[tokio::test]
async fn s74_group_is_replaced_and_removed() {
    let server = Running::with_clusters(&["a"]).await;
    let cache = &server.cache;
    cache.replace_group("edge", edge(), [cluster("e", b"")]);
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&ask("edge"));
    assert_eq!(names(&mut stream).await, ["a", "e"]);

    cache.replace_group("edge", edge(), [cluster("f", b"")]);
    assert_eq!(names(&mut stream).await, ["e", "f"]);

    cache.remove_group("edge");
    assert_eq!(stream.status().await.0, 14);
    let node = ask("edge").node.unwrap();
    let seen = cache.snapshot_for(&node);
    assert_eq!(seen.of_type(&ResourceType::CLUSTER).collection().len(), 1);
    assert!(cache.groups_of(&node).is_empty());
}

/// Given clients of two gateways, when a group for a third gateway is added, then no session is woken. When one for the
/// first is added, then only that session is woken, and reconnects. So a group for each client is affordable.
#[tokio::test]
async fn s74_new_group_wakes_only_nodes_that_may_match() {
    let server = Running::with_clusters(&["a"]).await;
    let mut streams = Vec::new();
    for node in ["gateway-1", "gateway-2"] {
        let mut stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&ask(node));
        assert_eq!(names(&mut stream).await, ["a"]);
        streams.push(stream);
    }
    let of = |gateway: &str| NodeMatcher {
        cluster: Some(Glob::exact(gateway)),
        ..NodeMatcher::default()
    };
    let woken = server.cache.wakeups();
    server
        .cache
        .replace_group("three", of("gateway-3"), [cluster("c", b"")]);
    assert_eq!(server.cache.wakeups(), woken);
    server
        .cache
        .replace_group("one", of("gateway-1"), [cluster("b", b"")]);
    assert_eq!(server.cache.wakeups(), woken + 1);
    assert_eq!(streams[0].status().await.0, 14);
    server.cache.apply(upsert(&["d"]));
    assert_eq!(names(&mut streams[1]).await, ["d"]);
}

/// Given a resource type without a descriptor, when clients subscribe to it over SotW and delta, then they get it.
#[tokio::test]
async fn s61_custom_type_is_served_without_registration() {
    let server = Running::with_clusters(&["a"]).await;
    let (resource_type, _) = ResourceType::from_message("acme.mesh.v1.Quota");
    let quota = Resource::new(resource_type.clone(), "gold", b"\x08\x64");
    server.cache.apply(ChangeSet::default().put(quota));

    let mut delta = Stream::open(server.grpc, DELTA).await;
    delta.send(&subscribe(resource_type.type_url(), &["*"]));
    assert_eq!(names(&mut delta).await, ["gold"]);
    let mut sotw = Stream::open(server.grpc, SOTW).await;
    sotw.send(&crate::client::ask(resource_type.type_url(), &["gold"]));
    let response = sotw.sotw().await;
    sotw.send(&DiscoveryRequest {
        resource_names: vec!["gold".into()],
        ..ack(&response)
    });
    assert_eq!(&*response.resources[0].value, b"\x08\x64");
    assert_eq!(response.resources[0].type_url, resource_type.type_url());

    server.cache.replace_type(
        &resource_type,
        [Resource::new(resource_type.clone(), "gold", b"\x08\x65")],
    );
    assert_eq!(names(&mut delta).await, ["gold"]);
    assert_eq!(&*sotw.sotw().await.resources[0].value, b"\x08\x65");
}

/// A message that is not part of the xDS API.
#[derive(Clone, PartialEq, prost::Message)]
struct Quota {
    #[prost(uint64, tag = "1")]
    per_second: u64,
}

impl prost::Name for Quota {
    const NAME: &'static str = "Quota";
    const PACKAGE: &'static str = "acme.mesh.v1";
}

/// Given a registered custom type, when a client subscribes before there is a resource, then the type is not unknown
/// and a SotW client waits. When there is a resource, then the client gets it, and the metrics name the type.
#[tokio::test]
async fn s59_s61_client_waits_for_a_registered_custom_type() {
    let resource_type = ResourceType::of::<Quota>();
    let server = Running::start(Server::builder().resource_type(resource_type.clone())).await;
    server.cache.apply(ChangeSet::default());
    let mut sotw = Stream::open(server.grpc, SOTW).await;
    sotw.send(&crate::client::ask(resource_type.type_url(), &["gold"]));
    server.counts("oxds_requests_total 1").await;
    let gold = Resource::own("gold", &Quota { per_second: 100 });
    server.cache.apply(ChangeSet::default().put(gold));
    let response = sotw.sotw_acked().await;
    assert_eq!(&*response.resources[0].value, b"\x08\x64");
    let acked = "oxds_acks_total{resource_type=\"acme.mesh.v1.Quota\"} 1";
    server.counts(acked).await;
    server.counts("oxds_unknown_types_total 0").await;
}

/// Given a running server, when its future is dropped, then its ports and streams are closed.
#[tokio::test]
async fn dropped_server_closes_its_ports_and_streams() {
    let server = Running::with_clusters(&["a"]).await;
    let (grpc, http) = (server.grpc, server.http);
    let mut stream = Stream::open(grpc, DELTA).await;
    stream.send(&ask(""));
    assert_eq!(names(&mut stream).await, ["a"]);
    drop(server);
    for address in [grpc, http] {
        until("the port is free", async || {
            let again = Server::builder().grpc(address).bind().await;
            again.is_ok().then_some(())
        })
        .await;
    }
    stream.is_over().await;
}

/// Handles are shared between threads; servers and their parts can be moved to another thread.
#[test]
fn public_handles_are_send_and_sync() {
    fn shared<T: Send + Sync + Clone>() {}
    fn moved<T: Send>() {}
    shared::<Cache>();
    shared::<Arc<Resource>>();
    shared::<Arc<Snapshot>>();
    shared::<Security>();
    shared::<LoadReports>();
    shared::<BindError>();
    moved::<Builder>();
    moved::<Server>();
    moved::<DirStore>();
    moved::<FileSink>();
    moved::<Update>();
}

/// Given an address in use, then the error has the address and `AddrInUse`.
#[tokio::test]
async fn address_in_use_is_a_typed_error() {
    let one = Server::builder().bind().await.unwrap();
    let error = Server::builder().grpc(one.grpc_addr()).bind().await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.address, error.kind),
        (one.grpc_addr(), ErrorKind::AddrInUse)
    );
    let expected = format!(
        "cannot listen on {}: Address already in use",
        one.grpc_addr()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
}

/// Given a client that waits for the first load, when the load has a group that matches it, then the client gets the
/// resources of the group on the same stream, and later changes, too.
#[tokio::test]
async fn s26_s74_waiting_client_keeps_its_stream_on_first_load() {
    let server = Running::start(Server::builder()).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&ask("edge"));
    until("the client waits", async || {
        let status = crate::admin::json(server.http).await;
        (status["nodes"][0]["types"][0]["type"] == "cds").then_some(())
    })
    .await;
    server
        .cache
        .replace_group("edge", edge(), [cluster("e", b"")]);
    server.cache.apply(upsert(&["a"]));
    assert_eq!(names(&mut stream).await, ["a", "e"]);
    server
        .cache
        .replace_group("edge", edge(), [cluster("f", b"")]);
    assert_eq!(names(&mut stream).await, ["e", "f"]);
    let status = crate::admin::json(server.http).await;
    assert_eq!(status["nodes"][0]["cluster"], "edge");
}
