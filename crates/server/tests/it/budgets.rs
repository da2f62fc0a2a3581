//! Memory that clients make the server keep is bounded, and released when they go.

use std::net::SocketAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsRequest;
use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use envoy_types::pb::google::protobuf::{Struct, Value, value};
use http::StatusCode;
use oxds_server::{Config, CsdsAccess, Limits, Server};
use oxds_testkit::hostile::{Call, Ended, Rude, framed};
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node, Status};
use prost::Message as _;
use serde_json::{Value as Json, json};

use crate::client::{CDS, Client, DELTA, SOTW, Stream, ack, ask, subscribe};
use crate::csds::{FETCH, STREAM};
use crate::load::{LRS, hello};
use crate::polling::post;
use crate::{Running, until, upsert};

const RESOURCE_EXHAUSTED: u32 = 8;
const UNIMPLEMENTED: u32 = 12;
const WINDOW: u32 = 65_535;
const MIB: usize = 1 << 20;

async fn start(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = Limits::default();
    change(&mut limits);
    let server = Running::start(Server::builder().limits(limits)).await;
    server.cache.apply(upsert(&["a"]));
    server
}

async fn rude(server: &Running) -> Rude {
    Rude::connect(server.grpc, WINDOW).await.unwrap()
}

/// Returns the status text of a call that ends because a limit is reached.
async fn exhausted(call: Call) -> String {
    match call.ended().await {
        Ended::Status(RESOURCE_EXHAUSTED, text) => text,
        ended => panic!("{ended:?}"),
    }
}

/// Waits until no client makes the server keep anything.
async fn released(server: &Running) {
    server.counts("oxds_client_bytes 0").await;
}

fn with_id(id: String) -> DiscoveryRequest {
    DiscoveryRequest {
        node: Some(Node {
            id,
            ..Node::default()
        }),
        ..ask(CDS, &[])
    }
}

/// Given nodes and node ids over their limits, by every way in, then each call ends with RESOURCE_EXHAUSTED or 413, and
/// the server keeps nothing of them.
#[tokio::test]
async fn s60_nodes_over_the_limit_are_refused_everywhere() {
    let server = start(|_| {}).await;
    let large = Value {
        kind: Some(value::Kind::StringValue("x".repeat(270_000))),
    };
    let large = Node {
        metadata: Some(Struct {
            fields: [("k".to_owned(), large)].into(),
        }),
        ..Node::default()
    };
    let long_id = with_id("x".repeat(1025)).node;
    for (node, expected) in [
        (Some(large), "at most 262144 are allowed"),
        (long_id, "node id of 1025 bytes: at most 1024 are allowed"),
    ] {
        let sotw = DiscoveryRequest {
            node: node.clone(),
            ..ask(CDS, &[])
        };
        let delta = oxds_types::discovery::DeltaDiscoveryRequest {
            node: node.clone(),
            ..subscribe(CDS, &[])
        };
        let load = LoadStatsRequest {
            node,
            ..LoadStatsRequest::default()
        };
        let fetch = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";
        for (path, request) in [
            (SOTW, framed(&sotw)),
            (DELTA, framed(&delta)),
            (LRS, framed(&load)),
            (fetch, framed(&sotw)),
        ] {
            let mut client = rude(&server).await;
            let mut call = client.call(path).await.unwrap();
            call.send(request);
            let text = exhausted(call).await;
            assert!(text.contains(expected), "{path}: {text}");
        }
    }
    for node in [
        json!({"id": "x".repeat(60 * MIB)}),
        json!({"id": "x".repeat(1025)}),
        json!({"metadata": {"k": vec![Vec::<u8>::new(); 100_000]}}),
    ] {
        let body = json!({"node": node}).to_string();
        let (status, text) = post(server.http, "/v3/discovery:clusters", body, None).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    }
    let status = crate::admin::get(server.http, "/status.json").await.1;
    assert!(status.len() < 10_000, "{} bytes", status.len());
    released(&server).await;
}

/// Given a connection with half-sent requests, when one more byte exceeds its budget, then the call with the most bytes
/// ends, the others go on, and so do other connections.
#[tokio::test]
async fn s60_unfinished_requests_count_against_the_connection() {
    let server = start(|limits| limits.connection_bytes = 8 * MIB).await;
    let mut other = Stream::open(server.grpc, SOTW).await;
    other.send(&ask(CDS, &[]));
    other.sotw_acked().await;

    let mut client = rude(&server).await;
    // 12 MiB of a message of 15 MiB.
    let mut half_sent = vec![0, 0, 0xf0, 0, 0];
    half_sent.resize(12 * MIB, 0);
    let half_sent = Bytes::from(half_sent);
    let mut small = client.call(SOTW).await.unwrap();
    small.send(framed(&ask(CDS, &[])));
    let first = DiscoveryResponse::decode(small.message().await.unwrap()).unwrap();
    for path in [SOTW, DELTA, LRS, STREAM] {
        let mut call = client.call(path).await.unwrap();
        // CSDS takes at most 1 MiB, and says so.
        call.send(half_sent.clone());
        let text = exhausted(call).await;
        let expected = match path {
            STREAM => "request of 15728640 bytes: at most 1048576 are allowed",
            _ => "out of memory for this connection: the limit of 8388608 bytes is reached",
        };
        assert!(text.contains(expected), "{path}: {text}");
    }
    assert!(
        server
            .metric("oxds_over_limit_total{limit=\"memory\"}")
            .await
            >= 2
    );
    small.send(framed(&ack(&first)));
    server.cache.apply(upsert(&["b"]));
    small.message().await.unwrap();
    assert_eq!(other.sotw_acked().await.resources.len(), 2);
    drop((small, client, other));
    released(&server).await;
}

/// Given two connections below their own budgets, when both together exceed that of the server, then the larger call
/// ends, although the smaller one asks.
#[tokio::test]
async fn s60_largest_call_of_the_server_ends() {
    let server = start(|limits| limits.client_bytes = 4 * MIB).await;
    let names =
        |count: usize| -> Vec<String> { (0..count).map(|i| format!("{i:0>100}")).collect() };
    let ask_for = |names: &[String]| DiscoveryRequest {
        resource_names: names.to_vec(),
        ..ask(CDS, &[])
    };
    let (mut one, mut two) = (rude(&server).await, rude(&server).await);
    let mut large = one.call(SOTW).await.unwrap();
    large.send(framed(&ask_for(&names(8_000))));
    until("the names are kept", async || {
        (server.metric("oxds_client_bytes").await > 2 * MIB as u64).then_some(())
    })
    .await;
    let mut small = two.call(SOTW).await.unwrap();
    for count in (1_000..=5_000).step_by(1_000) {
        small.send(framed(&ask_for(&names(count))));
    }
    let text = exhausted(large).await;
    assert!(
        text.contains("clients: the limit of 4194304 bytes"),
        "{text}"
    );
    drop((one, two, small));
    released(&server).await;
}

/// Given a client that NACKs with long texts again and again, then it keeps as much as one of them.
#[tokio::test]
async fn s60_texts_of_repeated_nacks_do_not_add_up() {
    let server = start(|_| {}).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    let mut kept = Vec::new();
    for round in 0..20_u8 {
        let response = stream.sotw().await;
        stream.send(&DiscoveryRequest {
            error_detail: Some(Status {
                message: format!("a: {}", "no ".repeat(1_000)),
                ..Status::default()
            }),
            ..ack(&response)
        });
        server
            .counts(&format!(
                "oxds_nacks_total{{resource_type=\"cds\"}} {}",
                round + 1
            ))
            .await;
        kept.push(server.metric("oxds_client_bytes").await);
        let mut changes = upsert(&[]);
        let changed = crate::cluster("a", &[0x1a, 1, round]);
        changes.upserts.push(changed.into());
        server.cache.apply(changes);
    }
    assert!(kept[19] <= kept[0] + 8_192, "{kept:?}");
    drop(stream);
    released(&server).await;
}

/// Given a client that polls and NACKs with a long text, then the text counts until the client accepts other content.
#[tokio::test]
async fn s60_nack_texts_of_poll_clients_count() {
    let server = start(|_| {}).await;
    let changed = |content| crate::cluster("a", &[0x10, content]);
    let poll = async |body: &Json| {
        let path = "/v3/discovery:clusters";
        let (status, text) = post(server.http, path, body.to_string(), Some(0)).await;
        (
            status,
            serde_json::from_str::<Json>(&text).unwrap_or_default(),
        )
    };
    let mut changes = upsert(&[]);
    changes.upserts.push(changed(1).into());
    server.cache.apply(changes);
    let first = poll(&json!({"node": {"id": "n"}})).await.1;
    let before = server.metric("oxds_client_bytes").await;
    let nack = json!({"node": {"id": "n"}, "responseNonce": first["nonce"],
        "errorDetail": {"message": format!("a: {}", "no ".repeat(1_000))}});
    poll(&nack).await;
    let kept = server.metric("oxds_client_bytes").await;
    assert!(kept >= before + 3_000, "{before}, then {kept}");
    let mut changes = upsert(&[]);
    changes.upserts.push(changed(2).into());
    server.cache.apply(changes);
    let (status, second) = poll(&nack).await;
    assert_eq!(status, StatusCode::OK);
    let ack = json!({"node": {"id": "n"}, "responseNonce": second["nonce"],
        "versionInfo": second["versionInfo"]});
    let (status, _) = poll(&ack).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED, "{second}");
    assert_eq!(server.metric("oxds_client_bytes").await, before);
}

/// Given clients that poll with invented ids and many names, then the registry follows those that fit the budget, and
/// refuses polls that do not.
#[tokio::test]
async fn s60_poll_clients_count_against_the_server() {
    let limit = 16 * MIB;
    let server = start(|limits| limits.client_bytes = limit).await;
    let names: Vec<String> = (0..5_000).map(|name| format!("name-{name}")).collect();
    for client in 0..20 {
        let node = json!({"id": format!("poll-{client}")});
        let body = json!({"node": node, "resourceNames": names}).to_string();
        let (status, text) = post(server.http, "/v3/discovery:clusters", body, Some(0)).await;
        let is_refused = status == StatusCode::TOO_MANY_REQUESTS && client > 5;
        assert!(status == StatusCode::OK || is_refused, "{client}: {text}");
    }
    let status = crate::admin::json(server.http).await;
    let nodes = status["nodes"].as_array().unwrap().iter();
    let followed = nodes.filter(|node| !node["types"].as_array().unwrap().is_empty());
    let followed = followed.count();
    assert!((5..=15).contains(&followed), "{followed} clients");
    assert!(server.metric("oxds_client_bytes").await <= limit as u64);
}

/// Given limits on names as options, then they hold.
#[tokio::test]
async fn s60_limits_of_names_are_configurable() {
    let mut config = Config::default();
    config.max_names = 2;
    config.max_types = 1;
    config.max_name_len = 100;
    let server = Running::start(Server::builder().config(config)).await;
    server.cache.apply(upsert(&["a"]));
    for (requests, expected) in [
        (vec![ask(CDS, &["a", "b", "c"])], RESOURCE_EXHAUSTED),
        (vec![ask(CDS, &[&"x".repeat(101)])], 3),
        (
            vec![
                ask(CDS, &[]),
                ask("type.googleapis.com/envoy.config.listener.v3.Listener", &[]),
            ],
            RESOURCE_EXHAUSTED,
        ),
    ] {
        let mut client = rude(&server).await;
        let mut call = client.call(SOTW).await.unwrap();
        for request in &requests {
            call.send(framed(request));
        }
        let ended = call.ended().await;
        assert!(
            matches!(&ended, Ended::Status(code, _) if *code == expected),
            "{ended:?}"
        );
    }
}

/// Given many clients with the same large contents, and more calls of CSDS than could be copied, then contents are not
/// copied, other clients are served at the same time, and a response over the budget is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s60_csds_flood_is_bounded() {
    let mut limits = Limits::default();
    limits.connection_bytes = 4 * MIB;
    let server = Running::start(Server::builder().limits(limits)).await;
    let content = [&[0x1a, 0x80, 0x80, 0x04][..], &[b'x'; 1 << 16]].concat();
    let mut changes = upsert(&[]);
    for cluster in 0..20 {
        let cluster = crate::cluster(&format!("c{cluster}"), &content);
        changes.upserts.push(cluster.into());
    }
    server.cache.apply(changes);
    let mut clients = Vec::new();
    for client in 0..20 {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&with_id(format!("client-{client:02}")));
        stream.sotw_acked().await;
        clients.push(stream);
    }
    // CSDS shows a resource once its ACK has been read.
    until("all clients are in sync", async || {
        let status = crate::admin::json(server.http).await;
        let nodes = status["nodes"].as_array().unwrap();
        let in_sync = nodes.iter().filter(|node| node["in_sync"] == true);
        (in_sync.count() == 20).then_some(())
    })
    .await;
    // Each response has 26 MB, of which the contents are shared.
    let mut asking = rude(&server).await;
    let mut calls = Vec::new();
    for _ in 0..20 {
        let mut call = asking.call(FETCH).await.unwrap();
        call.send(framed(&ClientStatusRequest::default()));
        calls.push(call);
    }
    until("responses are made, and not read", async || {
        let kept = server.metric("oxds_client_bytes").await;
        (kept > 20 * 20 * 20 * 50).then_some(())
    })
    .await;
    let kept = server.metric("oxds_client_bytes").await;
    assert!(
        kept < 16 * MIB as u64,
        "{kept} bytes for 20 responses of 26 MB"
    );
    let (status, _) = crate::admin::get(server.http, "/healthz").await;
    assert_eq!(status, StatusCode::OK);
    let mut whole = Client::connect(server.grpc).await;
    let response: ClientStatusResponse = whole.unary(FETCH, &ClientStatusRequest::default()).await;
    assert_eq!(response.config.len(), 20);
    let shown = response
        .config
        .iter()
        .flat_map(|client| &client.generic_xds_configs);
    let contents = shown.filter_map(|shown| shown.xds_config.as_ref());
    assert_eq!(
        contents.map(|any| any.value.len()).sum::<usize>(),
        20 * 20 * content.len() + 20 * (10 * 4 + 10 * 5)
    );
    drop((calls, asking, whole, clients));
    released(&server).await;
}

/// Given CSDS and LRS streams, then they count against the limits per peer.
#[tokio::test]
async fn s77_csds_and_lrs_streams_count_per_peer() {
    let server = start(|limits| limits.streams_per_peer = 2).await;
    let mut client = rude(&server).await;
    let mut csds = client.call(STREAM).await.unwrap();
    csds.send(framed(&ClientStatusRequest::default()));
    csds.message().await.unwrap();
    let mut lrs = client.call(LRS).await.unwrap();
    lrs.send(framed(&hello(&["envoy.lrs.supports_send_all_clusters"])));
    lrs.message().await.unwrap();
    for path in [SOTW, STREAM, FETCH, LRS] {
        let text = exhausted(client.call(path).await.unwrap()).await;
        assert_eq!(
            text,
            "too many streams of 127.0.0.1: the limit of 2 is reached"
        );
    }
    csds.reset();
    until("a stream is accepted again", async || {
        let mut call = client.call(SOTW).await.unwrap();
        call.send(framed(&ask(CDS, &[])));
        call.message().await.ok()
    })
    .await;
}

/// Given a server without CSDS, then its methods do not exist. All else is served.
#[tokio::test]
async fn s68_csds_can_be_switched_off() {
    let server = Running::start(Server::builder().csds(CsdsAccess::Off)).await;
    server.cache.apply(upsert(&["a"]));
    for path in [FETCH, STREAM] {
        let mut client = rude(&server).await;
        let ended = client.call(path).await.unwrap().ended().await;
        assert!(
            matches!(ended, Ended::Status(UNIMPLEMENTED, _)),
            "{ended:?}"
        );
    }
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    stream.sotw_acked().await;
}

/// Given more streams on one connection than C-core has targets, then all are served: the limit is per peer.
#[tokio::test]
async fn s77_one_connection_carries_all_streams_of_a_peer() {
    let server = start(|_| {}).await;
    let mut client = rude(&server).await;
    let mut calls = Vec::new();
    for target in 0..140 {
        let mut call = client.call(SOTW).await.unwrap();
        call.send(framed(&with_id(format!("target-{target}"))));
        calls.push(call);
    }
    for call in &mut calls {
        call.message().await.unwrap();
    }
    let limits = Limits::default();
    assert_eq!(
        limits.streams_per_connection as usize,
        limits.streams_per_peer
    );
}

async fn page(address: SocketAddr, path: &str) -> Json {
    let (status, body) = crate::admin::get(address, path).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn ids(page: &Json) -> Vec<String> {
    let nodes = page["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| node["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Given more clients and loads than a page has, then following `page.next` gives each of them once, although a client
/// leaves between two pages. A pattern selects nodes.
#[tokio::test]
async fn status_comes_in_pages() {
    let server = start(|_| {}).await;
    let mut streams = Vec::new();
    for client in 0..5 {
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&with_id(format!("s-{client}")));
        stream.sotw_acked().await;
        streams.push(stream);
    }
    for client in 0..3 {
        let body = json!({"node": {"id": format!("p-{client}")}}).to_string();
        post(server.http, "/v3/discovery:clusters", body, Some(0)).await;
    }
    let reporter = Stream::open(server.grpc, LRS).await;
    let mut report = hello(&["envoy.lrs.supports_send_all_clusters"]);
    let mut load = crate::load::report(1).cluster_stats.remove(0);
    for cluster in ["x", "y", "z"] {
        load.cluster_name = cluster.into();
        report.cluster_stats.push(load.clone());
    }
    reporter.send(&report);
    until("the loads", async || {
        let status = crate::admin::json(server.http).await;
        (status["loads"].as_array().unwrap().len() == 3).then_some(())
    })
    .await;

    let whole = page(server.http, "/status.json").await;
    assert_eq!(
        whole["page"],
        json!({"clients": 8, "behind": 0, "loads": 3, "next": null})
    );
    let (mut seen, mut loads) = (Vec::new(), Vec::new());
    let mut next = Some("/status.json?limit=2".to_owned());
    while let Some(path) = next {
        let page = page(server.http, &path).await;
        let of_page = (ids(&page).len(), page["loads"].as_array().unwrap().len());
        assert!(of_page.0 + of_page.1 <= 2, "{of_page:?}");
        seen.extend(ids(&page));
        let clusters = page["loads"].as_array().unwrap().iter();
        loads.extend(clusters.map(|load| load["cluster"].as_str().unwrap().to_owned()));
        next = page["page"]["next"].as_str().map(str::to_owned);
        if seen.len() == 2 {
            // Entries that go do not move the others.
            drop(streams.remove(0));
            until("the first client is gone", async || {
                let status = crate::admin::json(server.http).await;
                (status["page"]["clients"] == 7).then_some(())
            })
            .await;
        }
    }
    assert_eq!(
        seen,
        ["s-0", "s-1", "s-2", "s-3", "s-4", "p-0", "p-1", "p-2"]
    );
    assert_eq!(loads, ["x", "y", "z"]);

    let polls = page(server.http, "/status.json?node=p-*").await;
    assert_eq!(ids(&polls), ["p-0", "p-1", "p-2"]);
    assert_eq!(polls["loads"], json!([]));
    let summary = page(server.http, "/status.json?limit=0").await;
    assert_eq!(summary["nodes"], json!([]));
    assert_eq!(summary["loads"], json!([]));
    assert_eq!(summary["page"]["next"], Json::Null);
    assert_eq!(summary["page"]["clients"], polls["page"]["clients"]);
    let (status, text) = crate::admin::get(server.http, "/status.json?limit=x").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
}

/// Given a poll client that has the current version, when it polls again, then the status has not changed: it keeps its
/// ETag, and readers that wait for a change are not woken.
#[tokio::test]
async fn poll_without_a_change_does_not_change_the_status() {
    let server = start(|_| {}).await;
    let poll = async |version: &str| {
        let body = json!({"node": {"id": "n"}, "versionInfo": version}).to_string();
        post(server.http, "/v3/discovery:clusters", body, Some(0)).await
    };
    let (_, first) = poll("").await;
    let first: Json = serde_json::from_str(&first).unwrap();
    let version = first["versionInfo"].as_str().unwrap();
    // The ACK.
    assert_eq!(poll(version).await.0, StatusCode::NOT_MODIFIED);
    let (_, tag) = crate::admin::status_after(server.http, "none", 0).await;
    assert_eq!(poll(version).await.0, StatusCode::NOT_MODIFIED);
    let (status, _) = crate::admin::status_after(server.http, &tag, 0).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
}
