//! C-271, C-272: services of a single resource type, over gRPC.

use oxds_client::source::Grpc;
use oxds_client::{Bootstrap, Source, WatchErrorReason, XdsClient};
use oxds_core::resource::{Assignment, Cluster};
use oxds_testkit::ControlPlane;
use oxds_testkit::resources::{assignment, cluster};
use oxds_types::ResourceType;
use oxds_types::discovery::DiscoveryResponse;

use crate::scripted::{error, essence, value};

fn client() -> XdsClient {
    let bootstrap = Bootstrap::without_servers().node_id("per-type").build();
    XdsClient::new(bootstrap.unwrap().into())
}

fn grpc(server: &ControlPlane) -> Grpc {
    Grpc::new(&server.address().to_string()).unwrap()
}

/// given a gRPC source / when a resource of each type is watched / then each type is requested on a stream of its own
/// service, in the configured variant; a type without a service is an error at once.
#[tokio::test(flavor = "multi_thread")]
async fn c271_each_type_has_its_service() {
    let server = ControlPlane::start().await.unwrap();
    let client = client();
    for (resource_type, service, noun) in [
        (ResourceType::CLUSTER, "cluster.v3.Cluster", "Clusters"),
        (ResourceType::ENDPOINT, "endpoint.v3.Endpoint", "Endpoints"),
        (ResourceType::LISTENER, "listener.v3.Listener", "Listeners"),
        (ResourceType::ROUTE, "route.v3.Route", "Routes"),
        (ResourceType::SECRET, "secret.v3.Secret", "Secrets"),
        (ResourceType::RUNTIME, "runtime.v3.Runtime", "Runtime"),
        (
            ResourceType::EXTENSION_CONFIG,
            "extension.v3.ExtensionConfig",
            "ExtensionConfigs",
        ),
        (
            ResourceType::SCOPED_ROUTE,
            "route.v3.ScopedRoutes",
            "ScopedRoutes",
        ),
    ] {
        let variants = [("Stream", grpc(&server)), ("Delta", grpc(&server).delta())];
        for (variant, source) in variants {
            let watch = client.watch_raw_from(&source.into(), resource_type.clone(), "a");
            let stream = server.next_stream().await.unwrap();
            let expected = format!("/envoy.service.{service}DiscoveryService/{variant}{noun}");
            assert_eq!(stream.path(), expected);
            drop(watch.unwrap());
        }
    }
    let sotw = client.watch_raw_from(&grpc(&server).into(), ResourceType::VIRTUAL_HOST, "a");
    let error = sotw.unwrap_err().to_string();
    assert_eq!(error, "vhds has no service of its own over gRPC (SotW)");
    let delta = grpc(&server).delta().into();
    let _watch = client
        .watch_raw_from(&delta, ResourceType::VIRTUAL_HOST, "a")
        .unwrap();
    let stream = server.next_stream().await.unwrap();
    assert!(stream.path().ends_with("/DeltaVirtualHosts"));
}

/// given two types at one server, and one of them at another server too / then there are three streams, each with its
/// own nonce, version and node.
#[tokio::test(flavor = "multi_thread")]
async fn c271_each_type_has_its_own_stream_and_server() {
    let (one, two) = (
        ControlPlane::start().await.unwrap(),
        ControlPlane::start().await.unwrap(),
    );
    let client = client();
    let source: Source = grpc(&one).into();
    let mut c = client.watch_from::<Cluster>(&source, "c").unwrap();
    let mut clusters = one.next_stream().await.unwrap();
    let mut here = client.watch_from::<Assignment>(&source, "e").unwrap();
    let mut endpoints = one.next_stream().await.unwrap();
    let mut there = client
        .watch_from::<Assignment>(&grpc(&two).into(), "e")
        .unwrap();
    let mut elsewhere = two.next_stream().await.unwrap();
    for stream in [&mut clusters, &mut endpoints, &mut elsewhere] {
        let first = stream.request().await.unwrap();
        assert_eq!(first.node.unwrap().id, "per-type");
    }
    clusters.respond(&ResourceType::CLUSTER, "c7", vec![cluster("c", "e")]);
    endpoints.respond(&ResourceType::ENDPOINT, "e8", vec![assignment("e")]);
    elsewhere.respond(&ResourceType::ENDPOINT, "e9", vec![assignment("e")]);
    value(&mut c).await;
    value(&mut here).await;
    value(&mut there).await;
    for (stream, version) in [
        (&mut clusters, "c7"),
        (&mut endpoints, "e8"),
        (&mut elsewhere, "e9"),
    ] {
        let ack = stream.request().await.unwrap();
        assert_eq!(ack.version_info, version);
        assert!(!ack.response_nonce.is_empty());
    }
    // A server of one type may leave out the type URL.
    let untyped = DiscoveryResponse {
        version_info: "e9b".to_owned(),
        nonce: "n".to_owned(),
        resources: vec![assignment("e")],
        ..DiscoveryResponse::default()
    };
    elsewhere.send(untyped);
    assert_eq!(elsewhere.request().await.unwrap().version_info, "e9b");
    // The end of one stream does not end the others.
    drop((c, clusters));
    endpoints.respond(&ResourceType::ENDPOINT, "e10", vec![assignment("e")]);
    assert_eq!(endpoints.request().await.unwrap().version_info, "e10");
}

/// given the endpoints of two clusters at one server / then one stream requests both names; at another server / then
/// another stream.
#[tokio::test(flavor = "multi_thread")]
async fn c272_names_of_one_source_share_a_stream() {
    let (one, two) = (
        ControlPlane::start().await.unwrap(),
        ControlPlane::start().await.unwrap(),
    );
    let client = client();
    // Each cluster has its own config source; equal ones are the same source.
    let watch = |server, name| client.watch_from::<Assignment>(&grpc(server).into(), name);
    let mut a = watch(&one, "a").unwrap();
    let mut stream = one.next_stream().await.unwrap();
    let first = stream.request().await.unwrap();
    assert_eq!(essence(&first).0, ["a"]);
    let mut b = watch(&one, "b").unwrap();
    let both = stream.request().await.unwrap();
    assert_eq!(essence(&both).0, ["a", "b"]);
    stream.respond(
        &ResourceType::ENDPOINT,
        "1",
        vec![assignment("a"), assignment("b")],
    );
    value(&mut a).await;
    value(&mut b).await;
    let _c = watch(&two, "c").unwrap();
    let mut other = two.next_stream().await.unwrap();
    assert_eq!(essence(&other.request().await.unwrap()).0, ["c"]);
    assert_eq!((one.connections(), two.connections()), (1, 1));
    drop((a, b));
    one.has_connections(0).await.unwrap();
    assert_eq!(two.connections(), 1);
}

/// given an ADS source with a list of two servers / then all types are requested on one stream, of the second server if
/// the first is unreachable.
#[tokio::test(flavor = "multi_thread")]
async fn c271_an_aggregated_source_is_one_stream_and_falls_back() {
    let (away, server) = (
        ControlPlane::start().await.unwrap(),
        ControlPlane::start().await.unwrap(),
    );
    away.kill();
    let built = Bootstrap::builder(server.address().to_string()).build();
    let spare = built.unwrap().servers()[0].clone();
    let source = grpc(&away).or(spare).aggregated().into();
    let client = client();
    let mut c = client.watch_from::<Cluster>(&source, "c").unwrap();
    let _e = client.watch_from::<Assignment>(&source, "e").unwrap();
    let mut stream = server.next_stream().await.unwrap();
    assert!(stream.path().ends_with("/StreamAggregatedResources"));
    let mut asked = [
        stream.request().await.unwrap().type_url,
        stream.request().await.unwrap().type_url,
    ];
    asked.sort();
    assert_eq!(
        asked,
        [
            ResourceType::CLUSTER.type_url(),
            ResourceType::ENDPOINT.type_url()
        ]
    );
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    value(&mut c).await;
}

/// given a client without servers / then a watch at its servers is an error that says so; with servers / then a watch
/// from `Source::ads()` uses them.
#[tokio::test(flavor = "multi_thread")]
async fn client_without_servers_uses_sources_only() {
    let mut watch = client().watch::<Cluster>("c");
    let told = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(told.contains("the bootstrap has no server"), "{told}");
    let (server, client) = crate::scripted::start().await;
    let _watch = client.watch_from::<Cluster>(&Source::ads(), "c").unwrap();
    let _same = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    assert_eq!(essence(&stream.request().await.unwrap()).0, ["c"]);
    assert_eq!(server.accepted(), 1);
}

/// given our own server over a folder / then clusters and endpoints are followed by the services of their types, over
/// SotW and delta.
#[tokio::test(flavor = "multi_thread")]
async fn c271_our_server_is_followed_type_by_type() {
    use oxds_testkit::folder_server::{FolderServer, one};
    let server = FolderServer::start(&one("first", &[]));
    let client = client();
    let grpc = Grpc::new(&server.address().to_string()).unwrap();
    let sources = [grpc.clone().into(), grpc.delta().into()];
    let mut watches = Vec::new();
    for source in &sources {
        let mut cluster = client.watch_from::<Cluster>(source, "first").unwrap();
        let mut endpoints = client.watch_from::<Assignment>(source, "first").unwrap();
        value(&mut cluster).await;
        value(&mut endpoints).await;
        watches.push((cluster, endpoints));
    }
    server.write(&one("second", &[]));
    for (cluster, _endpoints) in &mut watches {
        error(cluster, WatchErrorReason::DoesNotExist).await;
    }
}
