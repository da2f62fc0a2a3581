//! The admin HTTP port: status, metrics, health.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use oxds_server::Server;
use oxds_types::discovery::Status;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::client::{CDS, SOTW, Stream, ack, ask};
use crate::{Running, cluster, until, upsert};

pub(crate) async fn get(address: SocketAddr, path: &str) -> (StatusCode, String) {
    let response = get_as(address, path, "*/*").await;
    (response.status(), response.into_body())
}

/// Requests a page in the format of this `Accept`.
pub(crate) async fn get_as(address: SocketAddr, path: &str, accept: &str) -> Response<String> {
    let socket = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::get(path)
        .header("host", "localhost")
        .header("accept", accept)
        .body(Empty::<Bytes>::new())
        .unwrap();
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(parts, String::from_utf8(body.into()).unwrap())
}

pub(crate) async fn json(address: SocketAddr) -> Value {
    let (status, body) = get(address, "/status.json").await;
    assert_eq!(status, StatusCode::OK);
    serde_json::from_str(&body).unwrap()
}

/// Requests the status page with this `If-None-Match` and `Prefer: wait`. Returns the HTTP status and the new ETag.
pub(crate) async fn status_after(
    address: SocketAddr,
    tag: &str,
    seconds: u64,
) -> (StatusCode, String) {
    let socket = TcpStream::connect(address).await.unwrap();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let request = Request::get("/status.json")
        .header("host", "localhost")
        .header("if-none-match", tag)
        .header("prefer", format!("wait={seconds}"))
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let tag = response.headers().get("etag");
    let tag = tag.map_or(String::new(), |tag| tag.to_str().unwrap().to_owned());
    (response.status(), tag)
}

/// Given a long poll for the status, then it returns when a client connects, receives a response, acknowledges it and
/// disconnects, and when the configuration changes. It returns 304 if nothing happens.
#[tokio::test]
async fn s68_status_long_poll_returns_on_change() {
    let server = Running::with_clusters(&["a"]).await;
    let (status, tag) = status_after(server.http, "\"\"", 60).await;
    assert_eq!(status, StatusCode::OK);
    let (status, _) = status_after(server.http, &tag, 1).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);

    let mut stream = Stream::open(server.grpc, SOTW).await;
    let mut tag = next_status(&server, &tag).await;
    stream.send(&ask(CDS, &[]));
    let response = stream.sotw().await;
    tag = next_status(&server, &tag).await;
    stream.send(&ack(&response));
    until("the client is in sync", async || {
        tag = next_status(&server, &tag).await;
        let status = json(server.http).await;
        (status["nodes"][0]["in_sync"] == true).then_some(())
    })
    .await;
    let (_, quiet) = status_after(server.http, &tag, 1).await;
    tag = if quiet.is_empty() { tag } else { quiet };
    drop(stream);
    tag = next_status(&server, &tag).await;
    server.cache.apply(upsert(&["b"]));
    next_status(&server, &tag).await;
}

async fn next_status(server: &Running, tag: &str) -> String {
    let (status, next) = status_after(server.http, tag, 60).await;
    assert_eq!(status, StatusCode::OK);
    assert_ne!(next, tag);
    next
}

/// Given a server before the first load, then it is alive but not ready. After the first load it is ready.
#[tokio::test]
async fn readiness_follows_the_first_load() {
    let server = Running::start(Server::builder()).await;
    assert_eq!(get(server.http, "/healthz").await.0, StatusCode::OK);
    assert_eq!(
        get(server.http, "/readyz").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    server.cache.apply(upsert(&[]));
    assert_eq!(get(server.http, "/readyz").await.0, StatusCode::OK);
}

/// Given a client that accepted a cluster, when it NACKs the next version, then the status shows the client, its
/// version and the NACK with the client's reason, and the metrics count it.
#[tokio::test]
async fn s17_nack_is_shown_with_its_reason() {
    let server = Running::start(Server::builder().identifier("replica-1")).await;
    server.cache.apply(upsert(&["a"]));
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    let good = stream.sotw().await;
    assert_eq!(good.control_plane.as_ref().unwrap().identifier, "replica-1");
    stream.send(&ack(&good));
    let mut changes = upsert(&[]);
    changes.upserts.push(cluster("a", b"\x10\x03").into());
    server.cache.apply(changes);
    let bad = stream.sotw().await;
    let mut nack = ack(&bad);
    nack.version_info.clone_from(&good.version_info);
    let message = "a: no such \"thing\"".to_owned();
    nack.error_detail = Some(Status {
        code: 3,
        message,
        ..Status::default()
    });
    stream.send(&nack);

    let status = until("the rejection", async || {
        let status = json(server.http).await;
        (status["nodes"][0]["types"][0]["nacks"] == 1).then_some(status)
    })
    .await;
    let node = &status["nodes"][0];
    assert_eq!(
        (&node["id"], &node["cluster"]),
        (&"test-1".into(), &"tests".into())
    );
    assert_eq!(node["protocol"], "sotw");
    let resource_type = &node["types"][0];
    assert_eq!(resource_type["type"], "cds");
    assert_eq!(resource_type["wildcard"], true);
    assert_eq!(resource_type["sent"], bad.version_info.as_str());
    assert_eq!(resource_type["acked"], good.version_info.as_str());
    assert_eq!(resource_type["nack"]["reason"], "a: no such \"thing\"");
    assert_eq!(resource_type["nacked"][0]["name"], "a");
    assert_eq!(resource_type["nacked"][0]["reason"], "a: no such \"thing\"");
    assert_eq!(status["snapshot"]["types"][0]["resources"], 1);

    let (_, metrics) = get(server.http, "/metrics").await;
    for line in [
        r#"oxds_acks_total{resource_type="cds"} 1"#,
        r#"oxds_nacks_total{resource_type="cds"} 1"#,
        r#"oxds_responses_total{resource_type="cds"} 2"#,
        r#"oxds_streams{protocol="sotw"} 1"#,
        r#"oxds_resources{resource_type="cds"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} not in\n{metrics}");
    }
}

/// Given a client, when it disconnects, then the status does not show it and the metrics do not count its stream.
#[tokio::test]
async fn disconnected_client_is_not_shown() {
    let server = Running::with_clusters(&["a"]).await;
    let stream = Stream::open(server.grpc, SOTW).await;
    assert_eq!(
        json(server.http).await["nodes"].as_array().unwrap().len(),
        1
    );
    drop(stream);
    until("the client is gone", async || {
        json(server.http).await["nodes"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .await;
    let (_, metrics) = get(server.http, "/metrics").await;
    assert!(
        metrics.contains(r#"oxds_streams{protocol="sotw"} 0"#),
        "{metrics}"
    );
}
