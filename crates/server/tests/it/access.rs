//! Access to the pages of the HTTP port.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use oxds_server::{HttpSecurity, Security, Server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::{Running, until};

/// Pages that name clients or their configuration.
const PAGES: [&str; 3] = ["/status.json", "/deprecations.json", "/runtime"];
/// Pages for probes and Prometheus.
const OPEN: [&str; 2] = ["/healthz", "/metrics"];

/// Requests a page with this header over a connection. Returns the status and the challenges.
async fn get_over<S>(socket: S, path: &str, header: (&str, &str)) -> (StatusCode, Vec<String>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header(header.0, header.1);
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let challenges = response.headers().get_all("www-authenticate");
    let challenges = challenges
        .iter()
        .map(|value| value.to_str().unwrap().to_owned());
    (response.status(), challenges.collect())
}

async fn get(address: SocketAddr, path: &str, header: (&str, &str)) -> (StatusCode, Vec<String>) {
    let socket = TcpStream::connect(address).await.unwrap();
    get_over(socket, path, header).await
}

/// Given a server with a token, then pages need it from every client, and probes do not.
#[tokio::test]
async fn pages_need_the_token_and_probes_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let security = HttpSecurity::default().token(&file).unwrap();
    let running = Running::start(Server::builder().http_security(security)).await;
    let of = async |path: &str, authorization: &str| {
        get(running.http, path, ("authorization", authorization)).await
    };
    for path in PAGES {
        let (status, challenges) = of(path, "Bearer wrong-0123456789").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(challenges[0].starts_with("Bearer ") && challenges[1].starts_with("Basic "));
        let (status, _) = of(path, "Bearer 0123456789abcdef").await;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
    for path in OPEN {
        assert_eq!(of(path, "").await.0, StatusCode::OK, "{path}");
    }
}

/// Given a server with a token, when the file gets another one, then only the new one opens the pages.
#[tokio::test]
async fn pages_follow_the_token_file() {
    const OLD: &str = "Bearer 0123456789abcdef";
    const NEW: &str = "Bearer fedcba9876543210";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let write = |token: &str| {
        let next = folder.path().join("next");
        std::fs::write(&next, token).unwrap();
        std::fs::rename(&next, &file).unwrap();
    };
    write("0123456789abcdef");
    let http = HttpSecurity::default().token(&file).unwrap();
    let security = Security::default();
    let builder = Server::builder().http_security(http);
    let running = Running::start(builder.security(security.clone())).await;
    let status = async |authorization: &str| {
        let header = ("authorization", authorization);
        get(running.http, "/status.json", header).await.0
    };
    assert_eq!(status(OLD).await, StatusCode::OK);
    assert_eq!(status(NEW).await, StatusCode::UNAUTHORIZED);

    write("fedcba9876543210");
    security.reload();
    until("the new token", async || {
        (status(NEW).await == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(status(OLD).await, StatusCode::UNAUTHORIZED);
}

/// Given an open server, then clients read its pages by whatever name they reach it.
#[tokio::test]
async fn pages_of_an_open_server_need_nothing() {
    let security = HttpSecurity::default().open();
    let running = Running::start(Server::builder().http_security(security)).await;
    for path in PAGES.iter().chain(&OPEN) {
        let (status, _) = get(running.http, path, ("host", "oxds.example")).await;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
}

/// Given a server without a setting, then a page of another site cannot read its pages through the browser of an
/// operator.
#[tokio::test]
async fn pages_of_this_machine_need_its_name_as_host() {
    let running = Running::start(Server::builder()).await;
    for path in PAGES {
        let of = |host| get(running.http, path, ("host", host));
        assert_eq!(of("evil.example").await.0, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(of("localhost:1").await.0, StatusCode::OK, "{path}");
    }
    for path in OPEN {
        let (status, _) = get(running.http, path, ("host", "probe.example")).await;
        assert_eq!(status, StatusCode::OK, "{path}");
    }
}

/// Given certificates for the HTTP port, then it is served over TLS with HTTP/1.1.
#[cfg(feature = "tls")]
#[tokio::test]
async fn pages_are_served_over_tls() {
    use oxds_testkit::certificates::Authority;

    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("test").unwrap();
    let files = authority.issue(&["localhost"]).unwrap();
    let files = files.write(folder.path(), "http").unwrap();
    let security = HttpSecurity::default()
        .tls(&files.certificate, &files.key)
        .unwrap();
    let running = Running::start(Server::builder().http_security(security)).await;

    let connector = authority.connector(None, &["h2", "http/1.1"]).unwrap();
    let socket = TcpStream::connect(running.http).await.unwrap();
    let socket = connector
        .connect("localhost".try_into().unwrap(), socket)
        .await
        .unwrap();
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (status, _) = get_over(socket, "/status.json", ("host", "localhost")).await;
    assert_eq!(status, StatusCode::OK);
}
