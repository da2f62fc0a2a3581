//! One stream to a control plane: request, response, ACK, NACK.

use std::time::Duration;

use envoy_types::pb::google::protobuf::value::Kind as Json;
use oxds_client::{Bootstrap, ClientPool, Options, Update, WatchErrorReason};
use oxds_core::resource::{Assignment, Cluster};
use oxds_testkit::ControlPlane;
use oxds_testkit::resources::{cluster, heavy_cluster, static_cluster};
use oxds_types::ResourceType;

use crate::scripted::{acknowledged, error, essence, next, start, value};

/// given a client without watches / then it has no connection; when the first watch begins / then one; when the last
/// watch ends / then it closes although the client lives; when a watch begins / then there is one again.
#[tokio::test]
async fn c63_a_connection_lives_from_the_first_watch_to_the_last() {
    let (server, client) = start().await;
    assert_eq!(server.accepted(), 0);

    let watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    assert_eq!(server.connections(), 1);

    drop(watch);
    stream.ended().await.unwrap();
    server.has_connections(0).await.unwrap();

    let _watch = client.watch::<Cluster>("c");
    server.next_stream().await.unwrap().request().await.unwrap();
    assert_eq!(server.accepted(), 2);
}

/// given a control plane that sends headers only with its first response / when a stream opens and a second watch
/// begins / then both requests arrive before the headers, on v3's aggregated method.
#[tokio::test]
async fn c64_requests_go_out_before_the_headers_of_the_response() {
    let (server, client) = start().await;
    let mut clusters = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    assert_eq!(
        stream.path(),
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
    );
    let first = stream.request().await.unwrap();
    assert_eq!(first.type_url, ResourceType::CLUSTER.type_url());

    let _endpoints = client.watch::<Assignment>("e");
    let second = stream.request().await.unwrap();
    assert_eq!(second.type_url, ResourceType::ENDPOINT.type_url());

    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    assert_eq!(&*value(&mut clusters).await.eds_service_name, "e");
}

/// The same, if headers come at once and the response comes later.
#[tokio::test]
async fn c64_headers_without_a_response_change_nothing() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.send_headers();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    value(&mut watch).await;
}

/// given a new stream / then the first request has the node, no version, no nonce; when a valid response comes / then
/// its version and nonce are acknowledged with all names, without the node.
#[tokio::test]
async fn c65_c66_c67_a_good_response_is_acknowledged() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    let first = stream.request().await.unwrap();
    assert_eq!(essence(&first), (vec!["c"], "", ""));
    assert_eq!(first.node.unwrap().id, "scripted");

    stream.respond(&ResourceType::CLUSTER, "7", vec![cluster("c", "")]);
    let ack = stream.request().await.unwrap();
    assert_eq!(essence(&ack), (vec!["c"], "7", "nonce-1"));
    assert_eq!((ack.error_detail, ack.node), (None, None));
    // Without a service name, endpoints are requested by the cluster's name.
    assert_eq!(&*value(&mut watch).await.eds_service_name, "c");
}

/// given an accepted version / when a response has one valid and one invalid cluster / then the valid one applies, the
/// watcher of the invalid one gets the reason, and the NACK names it, with the previous version and the new nonce.
#[tokio::test]
async fn c68_c81_invalid_resource_is_nacked_and_valid_one_applies() {
    let (server, client) = start().await;
    let (mut stream, mut good) = acknowledged(&server, &client, cluster("c", "e")).await;
    let mut bad = client.watch::<Cluster>("bad");
    let more = stream.request().await.unwrap();
    assert_eq!(essence(&more), (vec!["bad", "c"], "1", "nonce-1"));

    let resources = vec![cluster("c", "other"), static_cluster("bad")];
    stream.respond(&ResourceType::CLUSTER, "2", resources);

    let nack = stream.request().await.unwrap();
    assert_eq!(essence(&nack), (vec!["bad", "c"], "1", "nonce-2"));
    let detail = nack.error_detail.unwrap();
    assert_eq!(detail.code, i32::from(tonic::Code::InvalidArgument));
    assert!(detail.message.contains("bad"), "{}", detail.message);
    assert_eq!(&*value(&mut good).await.eds_service_name, "other");
    let why = error(&mut bad, WatchErrorReason::Invalid).await.to_string();
    assert!(why.contains("\"bad\"") && why.contains("scripted"), "{why}");
}

/// given two watched clusters / when one is unwatched / then only the other is requested, at the same version.
#[tokio::test]
async fn c75_unwatched_name_leaves_the_request() {
    let (server, client) = start().await;
    let (mut stream, _watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    let other = client.watch::<Cluster>("other");
    stream.request().await.unwrap();
    drop(other);
    let request = stream.request().await.unwrap();
    assert_eq!(essence(&request), (vec!["c"], "1", "nonce-1"));
}

/// given an accepted response / when the server repeats it / then each is acknowledged, and the watcher gets nothing
/// until the contents change.
#[tokio::test]
async fn c86_repeated_response_is_acked_and_not_delivered() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    for nonce in ["nonce-2", "nonce-3"] {
        stream.repeat();
        let ack = stream.request().await.unwrap();
        assert_eq!(essence(&ack), (vec!["c"], "1", nonce));
    }
    stream.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
}

/// given tonic's limit of 4 MiB / when a response of 6 MiB comes / then it is accepted.
#[tokio::test]
async fn c93_a_response_of_more_than_4_mib_is_accepted() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(
        &ResourceType::CLUSTER,
        "1",
        vec![heavy_cluster("c", 6 << 20)],
    );
    value(&mut watch).await;
    let ack = stream.request().await.unwrap();
    assert_eq!(essence(&ack), (vec!["c"], "1", "nonce-1"));
}

/// given a configured limit / when a response is larger / then the stream ends with an error that says so.
#[tokio::test]
async fn c93_a_response_beyond_the_limit_ends_the_stream() {
    let server = ControlPlane::start().await.unwrap();
    let bootstrap = Bootstrap::builder(server.address().to_string())
        .build()
        .unwrap();
    let options = Options::default().with_max_response_bytes(1 << 10);
    let client = ClientPool::with_options(bootstrap, options).client("test");
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.respond(
        &ResourceType::CLUSTER,
        "1",
        vec![heavy_cluster("c", 2 << 10)],
    );
    let why = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(why.contains("OutOfRange"), "{why}");
    stream.ended().await.unwrap();
}

/// given a configured resource timeout / when the server is silent for so long / then the resource does not exist.
#[tokio::test]
async fn c98_resource_timeout_is_configurable() {
    assert_eq!(Options::default().resource_timeout.as_secs(), 15);
    let server = ControlPlane::start().await.unwrap();
    let bootstrap = Bootstrap::builder(server.address().to_string())
        .build()
        .unwrap();
    let options = Options::default().with_resource_timeout(Duration::from_millis(100));
    let client = ClientPool::with_options(bootstrap, options).client("test");
    let mut watch = client.watch::<Cluster>("c");
    let _stream = server.next_stream().await.unwrap();
    let why = error(&mut watch, WatchErrorReason::DoesNotExist)
        .await
        .to_string();
    assert!(why.contains("no answer within 0.1 s"), "{why}");
}

/// given a node with every field of a bootstrap / then the first request has all of them, and the library's own name
/// and features; given no node / then only the library's.
#[tokio::test]
async fn c22_c23_c25_the_first_request_introduces_the_node() {
    let node = r#","node":{"id":"n","cluster":"c","locality":{"region":"r","zone":"z","sub_zone":"s"},
        "metadata":{"none":null,"list":[1,{"deep":true}]},"user_agent_name":"forged"}"#;
    for (text, id) in [(node, "n"), ("", "")] {
        let server = ControlPlane::start().await.unwrap();
        let entry = crate::authorities::entry(&server, "");
        let json = format!(r#"{{"xds_servers":[{entry}]{text}}}"#);
        let pool = ClientPool::new(Bootstrap::from_json(&json).unwrap());
        let _watch = pool.client("test").watch::<Cluster>("c");
        let mut stream = server.next_stream().await.unwrap();
        let node = stream.request().await.unwrap().node.unwrap();
        assert_eq!(
            (node.id.as_str(), node.user_agent_name.as_str()),
            (id, "oxds")
        );
        let features: Vec<&str> = node.client_features.iter().map(String::as_str).collect();
        assert_eq!(
            features,
            [
                "envoy.lb.does_not_support_overprovisioning",
                "xds.config.resource-in-sotw"
            ]
        );
        if id.is_empty() {
            assert!(node.locality.is_none() && node.metadata.is_none());
            continue;
        }
        let locality = node.locality.unwrap();
        assert_eq!(
            (
                node.cluster,
                locality.region,
                locality.zone,
                locality.sub_zone
            ),
            ("c".into(), "r".into(), "z".into(), "s".into())
        );
        let fields = node.metadata.unwrap().fields;
        assert!(matches!(fields["none"].kind, Some(Json::NullValue(_))));
        let Some(Json::ListValue(list)) = &fields["list"].kind else {
            panic!("{fields:?}");
        };
        assert!(matches!(list.values[1].kind, Some(Json::StructValue(_))));
    }
}

/// given a first response with only invalid resources / then the NACK has no version, and the response's nonce.
#[tokio::test]
async fn c69_nack_of_the_first_response_has_no_version() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![static_cluster("c")]);
    let nack = stream.request().await.unwrap();
    assert_eq!(essence(&nack), (vec!["c"], "", "nonce-1"));
    assert!(nack.error_detail.is_some());
    error(&mut watch, WatchErrorReason::Invalid).await;
}

/// given a value / when the server deletes the resource / then the watcher gets a not-found error.
#[tokio::test]
async fn c100_deleted_cluster_is_an_error_for_its_watcher() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    stream.respond(&ResourceType::CLUSTER, "2", Vec::new());
    let why = error(&mut watch, WatchErrorReason::DoesNotExist)
        .await
        .to_string();
    assert!(why.contains("deleted"), "{why}");
}

/// given a pending read / when an update has woken it and it is dropped before it reads / then the next read returns
/// the update.
#[tokio::test]
async fn a_cancelled_read_loses_nothing() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "0")).await;
    for version in ["1", "2", "3"] {
        let mut cancelled = Box::pin(watch.next());
        tokio::select! {
            biased;
            word = &mut cancelled => panic!("{word:?}"),
            () = std::future::ready(()) => {}
        }
        stream.respond(&ResourceType::CLUSTER, version, vec![cluster("c", version)]);
        stream.request().await.unwrap();
        drop(cancelled);
        assert_eq!(&*value(&mut watch).await.eds_service_name, version);
    }
}

/// given a cached value / when a second watch of it begins / then it gets the value, and nothing is requested again.
#[tokio::test]
async fn c107_second_watcher_is_served_from_the_cache() {
    let (server, client) = start().await;
    let (_stream, _first) = acknowledged(&server, &client, cluster("c", "e")).await;
    let mut second = client.watch::<Cluster>("c");
    assert!(matches!(next(&mut second).await, Update::Changed(Ok(_))));
    assert_eq!(server.accepted(), 1);
}
