//! Poll clients: `Fetch*` and REST (S-56, S-57).

use std::net::SocketAddr;

use envoy_types::pb::envoy::service::status::v3::{
    ClientStatusRequest, ClientStatusResponse, ConfigStatus,
};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use oxds_server::Server;
use oxds_types::discovery::DiscoveryResponse;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::{CDS, Client, ask};
use crate::{Running, upsert};

const CLUSTERS: &str = "/v3/discovery:clusters";

const FETCH: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";

/// Creates a change set with other content of a cluster.
fn changed(name: &str, content: u8) -> oxds_core::snapshot::ChangeSet {
    let mut changes = upsert(&[]);
    let changed = crate::cluster(name, &[0x10, content]);
    changes.upserts.push(changed.into());
    changes
}

/// Posts a body, with `Prefer: wait` if `wait` has a number of seconds.
pub(crate) async fn post(
    address: SocketAddr,
    path: &str,
    body: impl Into<String>,
    wait: Option<u64>,
) -> (StatusCode, String) {
    let socket = TcpStream::connect(address).await.unwrap();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(path).header("host", "test");
    if let Some(seconds) = wait {
        request = request.header("prefer", format!("respond-async, wait={seconds}"));
    }
    let request = request
        .body(Full::<bytes::Bytes>::from(body.into()))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.into()).unwrap())
}

pub(crate) async fn poll(
    server: &Running,
    request: &Value,
    wait: Option<u64>,
) -> (StatusCode, Value) {
    let (status, body) = post(server.http, CLUSTERS, request.to_string(), wait).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

/// Given clusters a and b, when a client polls without a version, then it gets 200 with both, in canonical JSON. When
/// it polls with that version, then it gets 304.
#[tokio::test]
async fn s56_poll_is_answered_if_the_version_differs() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let (status, response) = poll(&server, &json!({"node": {"id": "n"}}), None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(response["typeUrl"], CDS);
    let cluster = |name: &str| json!({"@type": CDS, "name": name});
    assert_eq!(response["resources"], json!([cluster("a"), cluster("b")]));

    let request = json!({"versionInfo": response["versionInfo"]});
    let (status, _) = poll(&server, &request, Some(0)).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    let named = json!({"resource_names": ["b", "z"], "type_url": CDS});
    let (_, response) = poll(&server, &named, None).await;
    assert_eq!(response["resources"], json!([cluster("b")]));
}

/// Given a long poll of a client with the current version, when a resource that it named changes, then it is answered
/// at once. A change of another resource does not end the poll.
#[tokio::test]
async fn s56_long_poll_is_answered_on_change() {
    let server = Running::with_clusters(&["a"]).await;
    let request = json!({"resourceNames": ["a", "z"]});
    let (_, first) = poll(&server, &request, None).await;
    let held = json!({"resourceNames": ["a", "z"], "versionInfo": first["versionInfo"]});
    let waiting = poll(&server, &held, Some(60));
    let changing = async {
        server.counts("oxds_requests_total 2").await;
        server.cache.apply(upsert(&["b"]));
        // Another client sees the change before that.
        let (_, all) = poll(&server, &json!({}), None).await;
        assert_eq!(all["resources"].as_array().unwrap().len(), 2);
        server.cache.apply(upsert(&["z"]));
    };
    let ((status, response), ()) =
        tokio::time::timeout(crate::SOON, async { tokio::join!(waiting, changing) })
            .await
            .unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(response["resources"].as_array().unwrap().len(), 2);
}

/// Given a server without configuration, then a poll gets 404. Given an unknown path, a wrong method, malformed JSON,
/// another resource type or a name over the limit, then each gets its own 4xx status.
#[tokio::test]
async fn s57_client_errors_have_their_http_status() {
    let server = Running::start(Server::builder()).await;
    let (status, _) = poll(&server, &json!({}), Some(0)).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    server.cache.apply(upsert(&["a"]));
    assert_eq!(poll(&server, &json!({}), Some(0)).await.0, StatusCode::OK);

    let other = json!({"typeUrl": "type.googleapis.com/envoy.config.listener.v3.Listener"});
    let long = json!({"resourceNames": ["x".repeat(5000)]});
    for (path, body, expected) in [
        ("/v3/discovery:nothing", "{}".into(), StatusCode::NOT_FOUND),
        (CLUSTERS, "{".into(), StatusCode::BAD_REQUEST),
        (CLUSTERS, other.to_string(), StatusCode::BAD_REQUEST),
        (CLUSTERS, long.to_string(), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let (status, text) = post(server.http, path, body, None).await;
        assert_eq!(status, expected, "{text}");
    }
    let (status, _) = crate::admin::get(server.http, CLUSTERS).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn s57_body_over_the_limit_is_refused() {
    let limits = {
        let mut limits = oxds_server::Limits::default();
        limits.message_bytes = 100;
        limits
    };
    let server = Running::start(Server::builder().limits(limits)).await;
    let (status, _) = post(server.http, CLUSTERS, " ".repeat(101), None).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// Given clusters a and b, when a client calls `FetchClusters`, then one response has both. When it calls again with
/// that version, then it gets the same response: gRPC has no "not modified", and an empty response would remove them.
#[tokio::test]
async fn s56_fetch_is_answered_over_grpc() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let mut client = Client::connect(server.grpc).await;
    let path = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";
    let first: DiscoveryResponse = client.unary(path, &ask("", &[])).await;
    assert_eq!((first.resources.len(), &*first.type_url), (2, CDS));
    let mut again = ask(CDS, &[]);
    again.version_info.clone_from(&first.version_info);
    let second: DiscoveryResponse = client.unary(path, &again).await;
    assert_eq!(first, second);
}

/// Given a REST client that rejected a change: its next polls get 304, with `Prefer: wait` or not, until the content
/// changes.
#[tokio::test]
async fn s80_rest_poll_after_a_nack_gets_304() {
    let server = Running::with_clusters(&["a"]).await;
    let (_, first) = poll(&server, &json!({"node": {"id": "n"}}), None).await;
    let mut request = json!({"node": {"id": "n"}, "versionInfo": first["versionInfo"]});
    assert_eq!(poll(&server, &request, Some(0)).await.0, 304);
    server.cache.apply(changed("a", 3));
    let (status, second) = poll(&server, &request, Some(0)).await;
    assert_eq!(status, StatusCode::OK);

    request["errorDetail"] = json!({"message": "a: no such thing"});
    request["responseNonce"] = second["nonce"].clone();
    for wait in [Some(0), None, Some(0), Some(1)] {
        let (status, body) = poll(&server, &request, wait).await;
        assert_eq!(status, StatusCode::NOT_MODIFIED, "{wait:?}: {body}");
    }
    server.cache.apply(changed("a", 4));
    let (status, third) = poll(&server, &request, Some(0)).await;
    assert_eq!(status, StatusCode::OK);
    assert_ne!(third["versionInfo"], second["versionInfo"]);
}

/// Given a `Fetch` client that rejected a change: it gets the state again that it accepted, since gRPC has no "not
/// modified". A client that accepted nothing before gets UNAVAILABLE. The change of the content is sent.
#[tokio::test]
async fn s80_fetch_after_a_nack_gets_the_accepted_state() {
    let server = Running::with_clusters(&["a"]).await;
    let mut client = Client::connect(server.grpc).await;
    let first: DiscoveryResponse = client.unary(FETCH, &ask(CDS, &["a"])).await;
    let mut request = ask(CDS, &["a"]);
    request.version_info.clone_from(&first.version_info);
    let same: DiscoveryResponse = client.unary(FETCH, &request).await;
    assert_eq!(same, first);
    server.cache.apply(changed("a", 3));
    let second: DiscoveryResponse = client.unary(FETCH, &request).await;
    assert_ne!(second.resources, first.resources);
    request.error_detail = Some(oxds_types::discovery::Status {
        message: "a: no such thing".into(),
        ..Default::default()
    });
    for _ in 0..2 {
        let again: DiscoveryResponse = client.unary(FETCH, &request).await;
        assert_eq!(again, first);
    }
    server.cache.apply(changed("a", 4));
    let third: DiscoveryResponse = client.unary(FETCH, &request).await;
    assert_ne!(third.resources, second.resources);

    let mut fresh = ask(CDS, &["a"]);
    fresh.node.as_mut().unwrap().id = "fresh".into();
    let sent: DiscoveryResponse = client.unary(FETCH, &fresh).await;
    assert_eq!(sent.resources, third.resources);
    fresh.error_detail.clone_from(&request.error_detail);
    fresh.response_nonce = sent.nonce;
    let mut denied = client.open_with(FETCH, &fresh).await;
    let (code, text) = denied.status().await;
    assert_eq!(code, 14, "{text}");
    assert!(text.contains("rejected"), "{text}");
}

/// Given a client that NACKed one resource: a change of another one is sent with the accepted content of the first.
#[tokio::test]
async fn s80_poll_after_a_nack_gets_other_changes() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let (_, first) = poll(&server, &json!({"node": {"id": "n"}}), None).await;
    let mut request = json!({"node": {"id": "n"}, "versionInfo": first["versionInfo"]});
    poll(&server, &request, Some(0)).await;
    server.cache.apply(changed("a", 3));
    poll(&server, &request, Some(0)).await;
    request["errorDetail"] = json!({"message": "a: no such thing"});
    assert_eq!(poll(&server, &request, Some(0)).await.0, 304);
    server.cache.apply(changed("b", 2));
    let (status, response) = poll(&server, &request, Some(0)).await;
    assert_eq!(status, StatusCode::OK);
    let cluster = |of: &Value, name: &str| {
        let mut resources = of["resources"].as_array().unwrap().iter();
        resources.find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(cluster(&response, "a"), cluster(&first, "a"));
    assert_ne!(cluster(&response, "b"), cluster(&first, "b"));
}

/// Given scopes and a client that polls them without names, as Envoy does: it gets all of them, by REST and by `Fetch`.
/// When one is added, then it gets that, too.
#[tokio::test]
async fn scopes_without_names_are_all_sent() {
    let scope = |name: &str| {
        let scope = envoy_types::pb::envoy::config::route::v3::ScopedRouteConfiguration {
            name: name.into(),
            ..Default::default()
        };
        oxds_core::snapshot::Resource::own(name, &scope)
    };
    let server = Running::start(Server::builder()).await;
    let changes = oxds_core::snapshot::ChangeSet::default();
    server
        .cache
        .apply(changes.put(scope("one")).put(scope("two")));
    let path = "/v3/discovery:scoped-routes";
    let rest = async |version: &Value| {
        let request = json!({"node": {"id": "n"}, "versionInfo": version});
        let (status, body) = post(server.http, path, request.to_string(), Some(0)).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let first = rest(&json!("")).await;
    assert_eq!(first["resources"].as_array().unwrap().len(), 2);
    let mut client = Client::connect(server.grpc).await;
    let path = "/envoy.service.route.v3.ScopedRoutesDiscoveryService/FetchScopedRoutes";
    let fetched: DiscoveryResponse = client.unary(path, &ask("", &[])).await;
    assert_eq!(fetched.resources.len(), 2);
    let changes = oxds_core::snapshot::ChangeSet::default();
    server.cache.apply(changes.put(scope("three")));
    let second = rest(&first["versionInfo"]).await;
    assert_eq!(second["resources"].as_array().unwrap().len(), 3);
}

/// Given an `xdstp` name in another spelling, or a locator with that name: a poll finds the resource. Both spellings
/// are one subscription.
#[tokio::test]
async fn names_and_locators_are_found_in_any_spelling() {
    let name = "xdstp://a/envoy.config.cluster.v3.Cluster/x?a=1&b=2";
    let spelt = "xdstp://a/envoy.config.cluster.v3.Cluster/%78?b=2&a=1";
    let server = Running::with_clusters(&[name, "plain"]).await;
    let mut versions = Vec::new();
    for request in [
        json!({"node": {"id": "n"}, "resourceNames": [spelt]}),
        json!({"node": {"id": "n"}, "resourceLocators": [{"name": spelt}]}),
        json!({"node": {"id": "n"}, "resourceNames": [name, spelt], "resourceLocators": [{"name": name}]}),
    ] {
        let (status, response) = poll(&server, &request, Some(0)).await;
        assert_eq!(status, StatusCode::OK, "{request}");
        let resources = response["resources"].as_array().unwrap();
        assert_eq!(resources.len(), 1, "{request}");
        versions.push(response["versionInfo"].clone());
    }
    let request = json!({"node": {"id": "n"}, "resourceNames": [name], "versionInfo": versions[0]});
    assert_eq!(poll(&server, &request, Some(0)).await.0, 304);
    let (_, page) = crate::admin::get(server.http, "/status.json").await;
    let page: Value = serde_json::from_str(&page).unwrap();
    let kinds = page["nodes"][0]["types"].as_array().unwrap();
    assert_eq!((kinds.len(), &kinds[0]["names"]), (1, &json!(1)));
    assert_eq!(versions[0], versions[1]);
    assert_eq!(versions[0], versions[2]);
}

/// Given a REST client and a `Fetch` client, then CSDS and the status page show both as they show streams: resources
/// are STALE until the next request acknowledges them, and a NACK is shown with the client's reason.
#[tokio::test]
async fn s68_poll_clients_are_shown() {
    let server = Running::with_clusters(&["a"]).await;
    let (_, first) = poll(&server, &json!({"node": {"id": "rest-1"}}), None).await;
    let mut client = Client::connect(server.grpc).await;
    let _: DiscoveryResponse = client
        .unary(
            "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
            &ask(CDS, &["a"]),
        )
        .await;
    let nodes = async || crate::admin::json(server.http).await["nodes"].clone();
    let states = |nodes: &Value| -> Vec<Value> {
        let nodes = nodes.as_array().unwrap().iter();
        nodes
            .map(|node| json!([node["id"], node["protocol"], node["types"][0]["state"]]))
            .collect()
    };
    assert_eq!(
        states(&nodes().await),
        [
            json!(["rest-1", "rest", "STALE"]),
            json!(["test-1", "fetch", "STALE"]),
        ]
    );

    let version = &first["versionInfo"];
    let mut request = json!({"node": {"id": "rest-1"}, "versionInfo": version});
    poll(&server, &request, Some(0)).await;
    let node = nodes().await[0].clone();
    assert_eq!(
        (&node["in_sync"], &node["types"][0]["acked"]),
        (&json!(true), version)
    );

    let mut changes = upsert(&[]);
    changes
        .upserts
        .push(crate::cluster("a", b"\x10\x03").into());
    server.cache.apply(changes);
    poll(&server, &request, None).await;
    request["errorDetail"] = json!({"message": "a: no such thing"});
    poll(&server, &request, Some(0)).await;
    let node = nodes().await[0].clone();
    assert_eq!(node["types"][0]["state"], "NACKED");
    assert_eq!(node["types"][0]["nacked"][0]["reason"], "a: no such thing");

    let response: ClientStatusResponse = client
        .unary(crate::csds::FETCH, &ClientStatusRequest::default())
        .await;
    let nacked = &response.config[0].generic_xds_configs[0];
    assert_eq!(nacked.config_status(), ConfigStatus::Error);
    assert_eq!(
        nacked.error_state.as_ref().unwrap().details,
        "a: no such thing"
    );
    let (_, metrics) = crate::admin::get(server.http, "/metrics").await;
    for line in [
        "oxds_poll_clients 2",
        r#"oxds_nacks_total{resource_type="cds"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} not in\n{metrics}");
    }
}
