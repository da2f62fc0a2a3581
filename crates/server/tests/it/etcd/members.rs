//! Programs at the address of a member.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use oxds_server::store::etcd::client::{Blame, Endpoints, EtcdError, Members, Reason};
use oxds_testkit::certificates::Authority;
use oxds_testkit::etcd::ScriptedEtcd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{connect_with, plain};

async fn fault(url: &str) -> EtcdError {
    let (_, options) = plain(url);
    connect_with(url, &options).await.unwrap_err()
}

/// Starts a server that answers the first bytes of each connection by these.
async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 24];
            let _ = socket.read_exact(&mut request).await;
            let _ = socket.write_all(bytes).await;
        }
    });
    url
}

#[tokio::test]
async fn g33_http_1_server_is_not_an_etcd() {
    let url = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = fault(&url).await;
    assert!(matches!(error.reason(), Reason::NotEtcd(_)), "{error:?}");
    assert_eq!(error.blame(), Blame::Operator);
    assert!(
        error
            .to_string()
            .starts_with(&format!("etcd {url}: not an etcd: ")),
        "{error}"
    );
    assert!(error.to_string().contains("HTTP/1.1"), "{error}");
}

/// given a port that closes the connection before a byte, as the HTTP port of oxds does / then the error says that it
/// may be no etcd; it is retried, because a member that ends does the same.
#[tokio::test]
async fn g33_port_without_http_2_may_be_no_etcd() {
    let server = crate::Running::with_clusters(&[]).await;
    let own_http = format!("http://{}", server.http);
    for url in [answering(b"").await, own_http] {
        let error = fault(&url).await;
        let text = error.to_string();
        let expected = ["before its HTTP/2 preface", "another program", "HTTP/1"];
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(
            (error.reason(), error.blame()),
            (&Reason::NoPreface, Blame::Member)
        );
        assert!(!error.is_outcome_unknown());
    }
}

#[tokio::test]
async fn g33_other_grpc_server_is_not_an_etcd() {
    let server = crate::Running::with_clusters(&[]).await;
    let error = fault(&format!("http://{}", server.grpc)).await;
    assert!(matches!(error.reason(), Reason::NotEtcd(_)), "{error:?}");
}

/// Starts a gRPC server that answers each call with this message.
async fn answering_calls(message: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = service_fn(move |_: Request<Incoming>| {
        let prefix = [0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
        let status = (HeaderName::from_static("grpc-status"), HeaderValue::from(0));
        let trailers = HeaderMap::from_iter([status]);
        let body = Full::new(Bytes::from([&prefix, message].concat()));
        let body = body.with_trailers(ready(Some(Ok::<_, Infallible>(trailers))));
        let response = Response::builder().header("content-type", "application/grpc");
        ready(response.body(body))
    });
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let server = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(socket), answer));
        }
    });
    url
}

#[tokio::test]
async fn g33_answer_that_is_no_message_of_etcd_is_an_error() {
    // A field of a group, which no message of etcd has.
    let error = fault(&answering_calls(b"a").await).await;
    let expected = "not an etcd: its answer is not a message of etcd";
    assert!(error.to_string().ends_with(expected), "{error}");
    // An empty message is one of etcd, without a cluster.
    let error = fault(&answering_calls(b"").await).await;
    assert!(matches!(error.reason(), Reason::NotEtcd(_)), "{error:?}");
}

#[tokio::test]
async fn g33_kine_and_old_versions_are_named() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    etcd.set_without_ids(true);
    assert!(fault(&etcd.url()).await.to_string().contains("kine"));
    etcd.set_without_ids(false);
    etcd.set_version("3.3.27");
    let text = fault(&etcd.url()).await.to_string();
    assert!(
        text.contains("etcd 3.3.27 is too old: expected 3.4 or later"),
        "{text}"
    );
    etcd.set_version("3.4.23");
    etcd.set_learner(true);
    let error = fault(&etcd.url()).await;
    assert_eq!(
        (error.reason(), error.blame()),
        (&Reason::Learner, Blame::Member)
    );
}

#[tokio::test]
async fn g17_next_member_is_used_after_a_failure() {
    let first = ScriptedEtcd::start().await.unwrap();
    let second = first.join().await.unwrap();
    let (endpoints, options) = plain(&format!("{},{}", first.url(), second.url()));
    let mut members = Members::new(endpoints, 0);
    first.kill();

    let error = oxds_server::store::etcd::client::EtcdClient::connect(members.current(), &options)
        .await
        .unwrap_err();
    assert!(
        matches!(error.reason(), Reason::Unreachable(_)),
        "{error:?}"
    );
    members.use_next();
    let client = oxds_server::store::etcd::client::EtcdClient::connect(members.current(), &options)
        .await
        .unwrap();

    assert_eq!(client.member(), second.url());
    first.restart().await.unwrap();
    let again = connect_with(&first.url(), &options).await.unwrap();
    assert_eq!(again.identity().cluster, client.identity().cluster);
    assert_ne!(again.identity().member, client.identity().member);
}

#[tokio::test]
async fn g20_member_that_never_answers_is_given_up() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    etcd.set_silent(true);
    let (_, options) = plain(&etcd.url());
    let options = options.timeout(Duration::from_millis(200));
    let error = connect_with(&etcd.url(), &options).await.unwrap_err();
    assert_eq!(error.blame(), Blame::Member);
    assert!(
        error.to_string().contains("no answer within 200ms"),
        "{error}"
    );
}

#[tokio::test]
async fn g32_tls_behind_http_url_is_named() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let server = Authority::new("etcd")
        .unwrap()
        .issue(&["127.0.0.1"])
        .unwrap();
    let acceptor = server.acceptor(&["h2"]).unwrap();
    let front = oxds_testkit::TlsFront::start(acceptor, etcd.address())
        .await
        .unwrap();
    let error = fault(&format!("http://{}", front.address())).await;
    assert!(matches!(error.reason(), Reason::Security(_)), "{error:?}");
    assert!(error.to_string().contains("expected https"), "{error}");
}

#[test]
fn g32_certificates_for_plaintext_are_an_error() {
    let endpoints: Endpoints = "http://127.0.0.1:1".parse().unwrap();
    let files = oxds_server::store::etcd::client::EtcdTlsFiles::default();
    let error = oxds_server::store::etcd::client::ClientOptions::new(&endpoints, Some(files));
    assert!(error.unwrap_err().to_string().contains("expected https://"));
}
