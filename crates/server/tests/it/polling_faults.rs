//! Malformed and abusive polls: each gets a client error, and costs little (S-57).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use oxds_server::{Limits, Server};
use oxds_types::{ApiVersion, ResourceType};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Client, ask};
use crate::per_type::with_every_type;
use crate::polling::{poll, post};
use crate::{Running, SOON};

const CLUSTERS: &str = "/v3/discovery:clusters";

/// Returns a request whose node metadata are `depth` nested objects.
fn nested(depth: usize) -> String {
    let (open, close) = ("{\"a\":".repeat(depth), "}".repeat(depth));
    format!("{{\"node\":{{\"metadata\":{open}1{close}}}}}")
}

/// Given valid and malformed bodies, then each gets 200 or 400, and none a server error.
#[tokio::test]
async fn s57_arbitrary_bodies_never_cause_a_server_error() {
    let server = Running::with_clusters(&["a"]).await;
    let lists = "[".repeat(1_000_000);
    let cases = [
        // An ACK as Envoy writes it, with a field that this server does not know.
        (
            json!({"response_nonce": "1", "version_info": "x", "tomorrow": [{}]}).to_string(),
            200,
        ),
        (nested(30), 200),
        (nested(5_000), 400),
        (nested(100_000), 413),
        (format!("{{\"tomorrow\":{lists}"), 400),
        (r#"{"node":{"id":"a"},"node":{"id":"b"}}"#.into(), 200),
        (r#"{"versionInfo":"a","version_info":"b"}"#.into(), 200),
        (r#"{"resourceNames":["a","a","*","*"]}"#.into(), 200),
        (r#"{"resourceNames":[null]}"#.into(), 400),
        (r#"{"typeUrl":"nonsense"}"#.into(), 400),
        (r#"{"errorDetail":{"code":99999999999}}"#.into(), 400),
        ("{} trailing".into(), 400),
        ("".into(), 400),
        ("null".into(), 400),
        ("\u{feff}{}".into(), 400),
    ];
    for (body, expected) in cases {
        let shown: String = body.chars().take(60).collect();
        let (status, text) = post(server.http, CLUSTERS, body, Some(0)).await;
        assert_eq!(status, expected, "{shown}: {text}");
    }
}

async fn send(server: SocketAddr, request: Request<Full<bytes::Bytes>>) -> (StatusCode, String) {
    let socket = TcpStream::connect(server).await.unwrap();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into())
}

/// Given methods other than POST, then each gets 405. Given unknown or malformed headers, then the poll is answered.
#[tokio::test]
async fn s57_wrong_methods_and_headers_have_their_status() {
    let server = Running::with_clusters(&["a"]).await;
    let with = |method: Method, header: (&str, &str)| {
        let request = Request::builder().method(method).uri(CLUSTERS);
        let request = request.header("host", "test").header(header.0, header.1);
        request.body(Full::from("{}")).unwrap()
    };
    let none = ("accept", "*/*");
    for method in [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::PUT,
        Method::DELETE,
    ] {
        let (status, _) = send(server.http, with(method.clone(), none)).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    for (header, expected) in [
        (("content-type", "text/plain"), 200),
        (("accept", "application/x-protobuf"), 200),
        (("prefer", "wait=-1"), 200),
        (("prefer", "wait=99999999999999999999"), 200),
        (("prefer", "wait=18446744073709551615"), 200),
    ] {
        let (status, text) = send(server.http, with(Method::POST, header)).await;
        assert_eq!(status, expected, "{header:?}: {text}");
    }
}

/// Given a resource of every type, when each REST path is polled and each `Fetch*` method is called, in both API
/// versions, then each response has its type URL.
#[tokio::test]
async fn s61_every_type_is_served_by_fetch_and_rest() {
    let server = with_every_type().await;
    let mut client = Client::connect(server.grpc).await;
    let (mut fetched, mut polled) = (0, 0);
    for resource_type in ResourceType::known() {
        for api in [ApiVersion::V3, ApiVersion::V2] {
            let Some(service) = resource_type.service(api) else {
                continue;
            };
            let expected = resource_type.type_url_in(api).unwrap();
            if let Some(method) = service.fetch {
                let path = format!("/{}/{method}", service.name);
                let response: oxds_types::discovery::DiscoveryResponse =
                    client.unary(&path, &ask("", &["a"])).await;
                assert_eq!(response.type_url, expected, "{path}");
                assert_eq!(response.resources[0].type_url, expected, "{path}");
                let replica = response.control_plane.unwrap().identifier;
                assert_eq!(replica, "replica-1", "{path}");
                fetched += 1;
            }
            if let Some(path) = service.rest {
                let (status, text) =
                    post(server.http, path, r#"{"resourceNames":["a"]}"#, None).await;
                assert_eq!(status, StatusCode::OK, "{path}: {text}");
                let response: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(response["typeUrl"], expected, "{path}");
                assert_eq!(response["resources"][0]["@type"], expected, "{path}");
                assert_eq!(response["controlPlane"]["identifier"], "replica-1");
                polled += 1;
            }
        }
    }
    // Virtual hosts and locality endpoints exist over delta only, and REST has no path for rate limits.
    assert_eq!((fetched, polled), (9 + 7, 8 + 7));
}

/// Given connections to the HTTP port that send nothing, half of the headers, or half of a body, then they are closed
/// after `first_request`.
#[tokio::test]
async fn s77_incomplete_http_request_times_out() {
    let mut limits = Limits::default();
    limits.timers.first_request = Duration::from_millis(100);
    let server = Running::start(Server::builder().limits(limits)).await;
    let half = format!("POST {CLUSTERS} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{{");
    for bytes in ["", "POST /v3/disc", &half] {
        let mut socket = TcpStream::connect(server.http).await.unwrap();
        socket.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(SOON, socket.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "{bytes:?}");
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{answer}"
        );
    }
}

/// Given the maximum number of connections to the HTTP port, then one more is closed.
#[tokio::test]
async fn s77_connections_to_the_http_port_are_limited() {
    let mut limits = Limits::default();
    limits.connections = 2;
    let server = Running::start(Server::builder().limits(limits)).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(server.http).await.unwrap();
        socket
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        held.push(socket);
    }
    let mut refused = TcpStream::connect(server.http).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(SOON, refused.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(read.is_err() || answer.is_empty());
    drop(held);
}

/// Given a waiting long poll, when the server shuts down, then the poll is answered and the shutdown does not wait for
/// it.
#[tokio::test]
async fn s79_shutdown_ends_polls() {
    let mut server = Running::with_clusters(&["a"]).await;
    let (_, first) = poll(&server, &json!({}), None).await;
    let held = json!({"versionInfo": first["versionInfo"]}).to_string();
    let waiting = tokio::spawn(post_static(server.http, held));
    server.counts("oxds_requests_total 2").await;
    let begun = Instant::now();
    server.stop();
    let (status, _) = timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    timeout(SOON, &mut server.task).await.unwrap().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

async fn post_static(address: SocketAddr, body: String) -> (StatusCode, String) {
    post(address, CLUSTERS, body, Some(60)).await
}
