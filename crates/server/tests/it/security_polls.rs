//! Polls over TLS: they use the gRPC port, which knows the identity of the client (S-56, S-78).

use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use oxds_server::Server;
use oxds_testkit::certificates::Issued;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

use crate::Running;
use crate::client::CDS;
use crate::security::{RULES, Secured, WEB};

const CLUSTERS: &str = "/v3/discovery:clusters";
const SECRETS: &str = "/v3/discovery:secrets";
const ADMIN: &str = "spiffe://prod/ns/ops/sa/admin";

impl Secured {
    async fn dial(
        &self,
        client: Option<&Issued>,
        alpn: &str,
    ) -> Result<TlsStream<TcpStream>, Box<dyn std::error::Error>> {
        let connector = self.authority.connector(client, &[alpn])?;
        let socket = TcpStream::connect(self.running.grpc).await?;
        let localhost = "localhost".try_into()?;
        Ok(connector.connect(localhost, socket).await?)
    }

    /// Polls for a secret as `shop-1`, then starts a long poll with the received version. Returns the task of the
    /// latter.
    pub(crate) async fn held_poll(
        &self,
        name: &str,
        secret: &str,
    ) -> JoinHandle<(StatusCode, String)> {
        let certificate = self.authority.issue(&[name]).unwrap();
        let mut asked = json!({"node": {"id": "shop-1"}, "resourceNames": [secret]});
        let version = Version::HTTP_11;
        let polled = self.post(version, Some(&certificate), SECRETS, &asked);
        asked["versionInfo"] = polled.await.unwrap().1["versionInfo"].clone();
        let socket = self.dial(Some(&certificate), "http/1.1").await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let body = Full::<bytes::Bytes>::from(asked.to_string());
        let request = Request::post(SECRETS).header("host", "localhost");
        let request = request.header("prefer", "wait=50").body(body).unwrap();
        let held = tokio::spawn(async move {
            let response = sender.send_request(request).await.unwrap();
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8_lossy(&body).into_owned())
        });
        // The first request, and this one, which waits.
        self.running.counts("oxds_requests_total 2").await;
        held
    }

    /// Posts a body over TLS in this version of HTTP, with this client certificate.
    async fn post(
        &self,
        version: Version,
        client: Option<&Issued>,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, Value), Box<dyn std::error::Error>> {
        let (alpn, uri) = match version {
            Version::HTTP_2 => ("h2", format!("https://localhost{path}")),
            _ => ("http/1.1", path.to_owned()),
        };
        let socket = TokioIo::new(self.dial(client, alpn).await?);
        let body = Full::<bytes::Bytes>::from(body.to_string());
        let request = Request::post(uri).header("host", "localhost").body(body)?;
        let response = match version {
            Version::HTTP_2 => {
                let shaken = http2::handshake(TokioExecutor::new(), socket).await;
                let (mut sender, connection) = shaken?;
                tokio::spawn(connection);
                sender.send_request(request).await?
            }
            _ => {
                let (mut sender, connection) = http1::handshake(socket).await?;
                tokio::spawn(connection);
                sender.send_request(request).await?
            }
        };
        let (head, body): (_, hyper::body::Incoming) = Response::into_parts(response);
        let body = body.collect().await?.to_bytes();
        Ok((
            head.status,
            serde_json::from_slice(&body).unwrap_or_default(),
        ))
    }

    async fn polled(&self, names: &[&str], path: &str, body: &Value) -> (StatusCode, Value) {
        let certificate = self.authority.issue(names).unwrap();
        let polled = self
            .post(Version::HTTP_11, Some(&certificate), path, body)
            .await;
        polled.unwrap()
    }
}

fn names(response: &Value) -> Vec<&str> {
    let resources = response["resources"].as_array().into_iter().flatten();
    resources.filter_map(|r| r["name"].as_str()).collect()
}

/// Given a server that requires client certificates, when a client polls over TLS with a certificate, by HTTP/1.1 or
/// HTTP/2, then it is served. Without a certificate the connection ends.
#[tokio::test]
async fn s56_s78_polls_are_served_over_tls() {
    let server = Secured::start(None).await;
    let certificate = server.authority.issue(&[WEB]).unwrap();
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let polled = server
            .post(version, Some(&certificate), CLUSTERS, &json!({}))
            .await;
        let (status, response) = polled.unwrap();
        assert_eq!(
            (status, &response["typeUrl"]),
            (StatusCode::OK, &CDS.into())
        );
        assert_eq!(names(&response), ["a"]);
        let without = server.post(version, None, CLUSTERS, &json!({})).await;
        without.unwrap_err();
    }
}

/// Given a server that requires client certificates, then plaintext polls are denied, because they have no certificate.
/// Given a server without client certificates, they are served.
#[tokio::test]
async fn s78_plaintext_polls_are_denied_with_client_certificates() {
    let server = Secured::start(None).await;
    let (status, text) = crate::polling::post(server.running.http, SECRETS, "{}", None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(text.contains("poll the gRPC port"), "{text}");
    server
        .running
        .counts(r#"oxds_denied_total{reason="authorization"} 1"#)
        .await;

    let open = Running::start(Server::builder().security(server.without_client_ca())).await;
    open.cache.apply(crate::upsert(&["a"]));
    let (status, _) = crate::polling::post(open.http, CLUSTERS, "{}", None).await;
    assert_eq!(status, StatusCode::OK);
}

/// Given rules, when clients poll with granted and other node ids, and for granted and other secrets, then each gets
/// only the resources that its rule grants.
#[tokio::test]
async fn s78_rules_apply_to_polls() {
    let server = Secured::start(Some(RULES)).await;
    let as_node = |id: &str| json!({"node": {"id": id}});
    let (status, response) = server.polled(&[WEB], CLUSTERS, &as_node("shop-1")).await;
    assert_eq!((status, names(&response)), (StatusCode::OK, vec!["a"]));
    let (status, _) = server.polled(&[WEB], CLUSTERS, &as_node("pay-1")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, _) = server.polled(&["spiffe://x"], CLUSTERS, &json!({})).await;
    assert_eq!(status, StatusCode::FORBIDDEN);

    let asked = json!({"node": {"id": "shop-1"}, "resourceNames": ["pay-cert", "shop-cert"]});
    let (_, response) = server.polled(&[WEB], SECRETS, &asked).await;
    assert_eq!(names(&response), ["shop-cert"]);

    let (_, status) = server.polled(&[ADMIN], CLUSTERS, &as_node("n")).await;
    assert_eq!(names(&status), ["a"]);
}
