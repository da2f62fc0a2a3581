//! Call credentials, and credential types of the application (gRFC A97).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use oxds_client::bootstrap::CredentialTypes;
use oxds_client::credentials::{
    CallCredentials, CallError, ChannelCredentials, Configured, JwtTokenFile, Pending,
};
use oxds_client::transport::{Http, Socket};
use oxds_client::{Bootstrap, ClientPool, XdsClient};
use oxds_core::resource::Cluster;
use oxds_testkit::{ControlPlane, TlsFront, jwt};
use serde_json::json;
use tonic::Code;

use crate::secured::{Files, authority, refusal};

/// Plaintext that declares itself private, as within one machine.
#[derive(Debug)]
struct Inside;

impl ChannelCredentials for Inside {
    fn secure<'a>(
        &'a self,
        socket: Socket,
        _: &'a str,
        _: Http,
    ) -> Pending<'a, io::Result<Socket>> {
        Box::pin(async { Ok(Socket::secured(socket)) })
    }

    fn is_private(&self) -> bool {
        true
    }
}

/// Adds a header that names the calling team.
#[derive(Debug)]
struct Team(&'static str);

impl CallCredentials for Team {
    fn headers(&self) -> Pending<'_, Result<HeaderMap, CallError>> {
        let value = HeaderValue::from_static(self.0);
        Box::pin(async {
            Ok(HeaderMap::from_iter([(
                http::HeaderName::from_static("x-team"),
                value,
            )]))
        })
    }
}

/// Credential types of the application, and the bootstrap that selects them.
fn own(server: &ControlPlane, path: &std::path::Path) -> XdsClient {
    let types = CredentialTypes::default()
        .with("inside", |_| Ok(Arc::new(Inside)))
        .with_call("team", |_| Ok(Arc::new(Team("shop"))))
        .with_jwt_token_file();
    let json = json!({ "xds_servers": [{
        "server_uri": server.address().to_string(),
        "channel_creds": [{ "type": "google_default" }, { "type": "inside" }],
        "call_creds": [
            { "type": "team" },
            { "type": "unknown" },
            { "type": "jwt_token_file", "config": { "jwt_token_file": path } },
        ],
    }] });
    let bootstrap = Bootstrap::from_json_with(&json.to_string(), &types).unwrap();
    ClientPool::new(bootstrap).client("test")
}

/// given channel and call credentials of the application, beside a token in a file / then every stream carries the
/// headers of all; a token that expires soon is read again for the next stream.
#[tokio::test]
async fn c34_every_call_carries_all_credentials_and_fresh_tokens() {
    let files = Files::new();
    let (first, second) = (jwt("first", 80), jwt("second", 4000));
    let path = files.write("token", &format!("{first}\n"));
    let server = ControlPlane::start().await.unwrap();
    let client = own(&server, &path);
    let _watch = client.watch::<Cluster>("c");
    let stream = server.next_stream().await.unwrap();
    assert_eq!(stream.metadata()["x-team"], "shop");
    assert_eq!(
        stream.metadata()["authorization"],
        format!("Bearer {first}")
    );

    files.write("token", &second);
    stream.end(Code::Unavailable, "again");
    let stream = server.next_stream().await.unwrap();
    assert_eq!(
        stream.metadata()["authorization"],
        format!("Bearer {second}")
    );

    // A valid token is cached: its file does not matter yet.
    std::fs::remove_file(&path).unwrap();
    stream.end(Code::Unavailable, "and again");
    let stream = server.next_stream().await.unwrap();
    assert_eq!(
        stream.metadata()["authorization"],
        format!("Bearer {second}")
    );
}

/// given TLS and a token / then the token is sent over TLS; over plaintext the stream opens without the token.
#[tokio::test]
async fn c34_a_token_goes_over_tls_and_not_over_plaintext() {
    let (files, ours) = (Files::new(), authority());
    let server = ControlPlane::start().await.unwrap();
    let acceptor = ours
        .issue(&["127.0.0.1"])
        .unwrap()
        .acceptor(&["h2"])
        .unwrap();
    let front = TlsFront::start(acceptor, server.address()).await.unwrap();
    let text = jwt("me", 4000);
    let path = files.write("token", &text);
    let tls = Configured::tls(files.trusting(&ours));
    for (address, credentials, expected) in [
        (front.address(), tls, Some(format!("Bearer {text}"))),
        (server.address(), Configured::insecure(), None),
    ] {
        let token = Arc::new(JwtTokenFile::new(&path));
        let bootstrap = Bootstrap::builder(address.to_string())
            .credentials(credentials)
            .call_credentials(Configured::new("token", None, token))
            .build();
        let client = ClientPool::new(bootstrap.unwrap()).client("test");
        let _watch = client.watch::<Cluster>("c");
        let stream = server.next_stream().await.unwrap();
        let shown = stream.metadata().get("authorization");
        assert_eq!(
            shown.map(|value| value.to_str().unwrap()),
            expected.as_deref()
        );
    }
}

/// given a token file that does not exist / then no stream is opened, and the watcher gets the reason; when the file
/// appears, the next attempt works.
#[tokio::test]
async fn c34_without_a_token_no_call_is_made() {
    let files = Files::new();
    let path = files.path("token");
    let server = ControlPlane::start().await.unwrap();
    let client = own(&server, &path);
    let why = refusal(&client).await;
    assert!(
        why.contains("Unavailable") && why.contains("token: No such file"),
        "{why}"
    );

    files.write("token", "garbage");
    let client = own(&server, &path);
    let why = refusal(&client).await;
    assert!(
        why.contains("Unauthenticated") && why.contains("is not a JWT"),
        "{why}"
    );

    let _watch = client.watch::<Cluster>("c");
    let text = jwt("late", 4000);
    files.write("token", &text);
    let stream = server.next_stream().await.unwrap();
    assert_eq!(stream.metadata()["authorization"], format!("Bearer {text}"));
    // Attempts without a token did not reach the server.
    assert!(
        tokio::time::timeout(Duration::from_millis(50), server.next_stream())
            .await
            .is_err()
    );
}
