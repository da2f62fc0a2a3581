//! Tests of backends that do not speak gRPC, or not HTTP/2.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use oxds_channel::testing::{cluster, config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tonic::{Code, Status};

use crate::support::{call_once, channel};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Returns the status of a call to a backend.
async fn status_of_call_to(backend: SocketAddr) -> Status {
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[backend])]], 0)],
    ));
    call_once(&channel).await.unwrap_err()
}

/// Starts an HTTP/2 server that answers every request with this status, these headers and this body.
async fn web_server(
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |_: Request<Incoming>| async move {
        let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(Full::new(Bytes::from_static(body.as_bytes())))
    };
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service_fn(answer));
            tokio::spawn(serving);
        }
    });
    address
}

/// Starts a server that reads something and then answers with these bytes.
async fn byte_server(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut some = [0; 24];
            // An error means that the client is gone.
            let _ = socket.read_exact(&mut some).await;
            let _ = socket.write_all(answer).await;
        }
    });
    address
}

#[tokio::test]
async fn http_error_with_body_has_the_mapped_code() {
    const HTML: &[(&str, &str)] = &[("content-type", "text/html")];
    for (status, code) in [
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
        (418, Code::Unknown),
        (200, Code::Unknown),
    ] {
        let server = web_server(status, HTML, "<html>upstream \x1b[1m gone").await;
        let error = status_of_call_to(server).await;
        assert_eq!(error.code(), code, "{status}: {error}");
        for part in [
            &format!("HTTP status {status}"),
            r#"content-type "text/html""#,
            r#"body "<html>upstream \x1b[1m gone""#,
        ] {
            assert!(error.message().contains(part), "{status}: {error}");
        }
    }
}

#[tokio::test]
async fn http_error_without_content_type_or_body_is_mapped() {
    let error = status_of_call_to(web_server(503, &[], "").await).await;
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(
        error
            .message()
            .ends_with("HTTP status 503 Service Unavailable"),
        "{error}"
    );
}

#[tokio::test]
async fn grpc_status_is_stronger_than_the_http_status() {
    const HEADERS: &[(&str, &str)] = &[("grpc-status", "9"), ("grpc-message", "not now")];
    let error = status_of_call_to(web_server(503, HEADERS, "ignored").await).await;
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert_eq!(error.message(), "not now");
}

#[tokio::test]
async fn http1_backend_is_named_with_its_first_bytes() {
    let server = byte_server(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let error = status_of_call_to(server).await;
    assert_eq!(error.code(), Code::Unavailable);
    let expected =
        r#"the peer speaks HTTP/1.1, expected HTTP/2; it sent "HTTP/1.1 400 Bad Request\r\n"#;
    assert!(error.message().contains(expected), "{error}");
}

#[tokio::test]
async fn tls_backend_is_named_with_its_first_bytes() {
    // A fatal alert: unexpected_message, or another one, depending on the library.
    let server = byte_server(&[21, 3, 1, 0, 2, 2, 10]).await;
    let error = status_of_call_to(server).await;
    assert_eq!(error.code(), Code::Unavailable);
    let expected = r#"the peer speaks TLS, expected HTTP/2 in plaintext; it sent "\x15\x03\x01"#;
    assert!(error.message().contains(expected), "{error}");
}

#[tokio::test]
async fn other_protocol_is_quoted() {
    let error = status_of_call_to(byte_server(b"220 mail ESMTP\r\n").await).await;
    let expected = r#"the peer does not speak HTTP/2; it sent "220 mail ESMTP\r\n""#;
    assert!(error.message().contains(expected), "{error}");
}

#[tokio::test]
async fn message_quotes_only_the_beginning_of_a_page() {
    let page = "x".repeat(100_000).leak();
    let error = status_of_call_to(web_server(502, &[], page).await).await;
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("xxx"), "{error}");
    assert!(error.message().len() < 300, "{}", error.message().len());
}
