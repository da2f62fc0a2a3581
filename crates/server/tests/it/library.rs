//! The cache as a program uses it that makes its resources itself.

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

/// Given a client that has a, b; when the whole state is handed over anew; then the client is told what differs, and
/// is not even woken if nothing does (P-11).
#[tokio::test]
async fn a_state_that_is_replaced_costs_what_differs() {
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

/// Given a source of clusters and one of listeners; when each hands over all it has; then neither touches what the
/// other has.
#[test]
fn a_source_may_own_a_type() {
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

/// Given groups, but nothing yet that all nodes see; when clients ask; then they wait, as an answer would take from
/// them what they had from another replica; when that is loaded, they get both at once.
#[tokio::test]
async fn s26_s74_groups_alone_are_not_a_configuration() {
    let server = Running::start(Server::builder()).await;
    let cache = &server.cache;
    cache.replace_group("edge", edge(), [cluster("e", b"")]);
    let mut streams = Vec::new();
    for node in ["edge", "inner"] {
        let stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&ask(node));
        streams.push(stream);
    }
    until("both are known", async || {
        let status = crate::pages::json(server.http).await;
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

/// Given a group with a client; when the group's state is replaced, then the client is told what differs; when the
/// group is removed, the client is sent away, and finds what all see.
#[tokio::test]
async fn s74_a_group_is_replaced_and_removed() {
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

/// Given clients of two gateways; when a group comes for a third one, then nobody is woken; when one comes for the
/// first, then its client alone is, and connects again. So a group for each client is affordable.
#[tokio::test]
async fn s74_a_new_group_wakes_only_those_whom_it_may_be_for() {
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

/// Given a kind that no descriptor knows; when clients of either variant ask for it over ADS; then they get it.
#[tokio::test]
async fn s61_a_type_of_ones_own_is_served_without_code() {
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

/// A message of one's own.
#[derive(Clone, PartialEq, prost::Message)]
struct Quota {
    #[prost(uint64, tag = "1")]
    per_second: u64,
}

impl prost::Name for Quota {
    const NAME: &'static str = "Quota";
    const PACKAGE: &'static str = "acme.mesh.v1";
}

/// Given a kind of one's own that the server was told of; when clients ask before there is any, then nobody calls it
/// unknown and a SotW client waits for it; when there is, they get it, and metrics name it.
#[tokio::test]
async fn s59_s61_a_type_of_ones_own_is_waited_for() {
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
    let acked = "oxds_acks_total{kind=\"acme.mesh.v1.Quota\"} 1";
    server.counts(acked).await;
    server.counts("oxds_unknown_kinds_total 0").await;
}

/// Given a server that runs; when the future that runs it is dropped; then nobody listens at its addresses any more,
/// and its clients are cut off.
#[tokio::test]
async fn a_server_that_is_dropped_lets_go_of_all_it_has() {
    let server = Running::with_clusters(&["a"]).await;
    let (grpc, http) = (server.grpc, server.http);
    let mut stream = Stream::open(grpc, DELTA).await;
    stream.send(&ask(""));
    assert_eq!(names(&mut stream).await, ["a"]);
    drop(server);
    for address in [grpc, http] {
        until("nobody listens", async || {
            let again = Server::builder().grpc(address).bind().await;
            again.is_ok().then_some(())
        })
        .await;
    }
    stream.is_over().await;
}

/// Handles may be kept and called anywhere, servers and what they are made of be moved to where they run.
#[test]
fn what_a_program_holds_is_send_and_sync() {
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

/// Given an address that somebody else has; then the error says so, and where.
#[tokio::test]
async fn an_address_in_use_is_told_by_its_type() {
    let one = Server::builder().bind().await.unwrap();
    let error = Server::builder().grpc(one.grpc_addr()).bind().await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.address, error.kind),
        (one.grpc_addr(), ErrorKind::AddrInUse)
    );
    let told = format!(
        "cannot listen on {}: Address already in use",
        one.grpc_addr()
    );
    assert!(error.to_string().starts_with(&told), "{error}");
}

/// Given a client that waits for the first load; when that brings a group for it; then it gets what the group has on
/// the stream that it has, and changes of names that it asked for before reach it there.
#[tokio::test]
async fn s26_s74_who_was_told_nothing_is_not_sent_away() {
    let server = Running::start(Server::builder()).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&ask("edge"));
    until("it waits", async || {
        let status = crate::pages::json(server.http).await;
        (status["nodes"][0]["kinds"][0]["kind"] == "cds").then_some(())
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
    let status = crate::pages::json(server.http).await;
    assert_eq!(status["nodes"][0]["cluster"], "edge");
}
