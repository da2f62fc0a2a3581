//! Polls over TLS: they come in by the gRPC port, which knows who polls (S-56, S-78).

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

    /// Polls for a secret, as `shop-1`, and then for a version that it has: what that is answered with.
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
        // The first question, and this one, which waits.
        self.running.counts("oxds_requests_total 2").await;
        held
    }

    /// Posts a body over TLS, in this version of HTTP, as whom the certificate says.
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

/// Given a server that lets nobody in without a certificate; when it is polled over TLS, by HTTP/1.1 or HTTP/2, with one;
/// then it answers; without one the connection ends.
#[tokio::test]
async fn s56_s78_polls_come_in_over_tls() {
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
        let nobody = server.post(version, None, CLUSTERS, &json!({})).await;
        nobody.unwrap_err();
    }
}

/// Given the same, without rules; then polls in plaintext are refused, as nobody shows a certificate there; given a server
/// that asks for none, they are not.
#[tokio::test]
async fn s78_where_certificates_are_asked_for_nobody_polls_in_plaintext() {
    let server = Secured::start(None).await;
    let (status, text) = crate::polling::post(server.running.http, SECRETS, "{}", None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(text.contains("poll the gRPC port"), "{text}");
    server
        .running
        .counts(r#"oxds_refusals_total{reason="authorization"} 1"#)
        .await;

    let open = Running::start(Server::builder().security(server.without_client_ca())).await;
    open.cache.apply(crate::upsert(&["a"]));
    let (status, _) = crate::polling::post(open.http, CLUSTERS, "{}", None).await;
    assert_eq!(status, StatusCode::OK);
}

/// Given rules; when clients poll as nodes that are theirs and that are not, and for secrets that are theirs and that are
/// not; then each is told what its rule grants, and no more.
#[tokio::test]
async fn s78_rules_hold_for_polls() {
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
