//! Polls over TLS, to our own server and to a scripted one: server and client certificates, call credentials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::bootstrap::Server;
use oxds_client::credentials::{
    CertificateFiles, ChannelCredentials, Configured, IdentityFiles, JwtTokenFile,
};
use oxds_client::source::{Rest, Source};
use oxds_client::{Bootstrap, Update, Watch, WatchErrorReason, XdsClient};
use oxds_core::resource::Cluster;
use oxds_testkit::certificates::Authority;
use oxds_testkit::{RestPlane, TlsFront, jwt, resources};
use oxds_types::ResourceType;

use crate::scripted::{ambient, error, next, value};
use crate::secured::{Files, authority, cluster};
use oxds_testkit::folder_server::FolderServer;

const DELAY: Duration = Duration::from_millis(100);

fn client() -> XdsClient {
    let bootstrap = Bootstrap::without_servers().node_id("poller").build();
    XdsClient::new(bootstrap.unwrap().into())
}

/// Polls our server where it serves TLS.
fn source(server: SocketAddr, files: CertificateFiles) -> Source {
    let url = format!("https://{server}");
    let rest = Rest::with_credentials(&url, Configured::tls(files)).unwrap();
    let rest = rest.refresh_delay(DELAY);
    rest.request_timeout(Duration::from_secs(5)).into()
}

/// The same with a client certificate of this authority.
fn source_as(server: SocketAddr, files: &Files, trusted: &Authority, own: &Authority) -> Source {
    let identity: IdentityFiles = files.identity(&own.issue(&["me"]).unwrap());
    let trusting = files.trusting(trusted);
    let identity = Some(identity);
    source(server, trusting.with_identity(identity))
}

async fn assignment(watch: &mut Watch<Cluster>) -> String {
    loop {
        if let Update::Changed(Ok(cluster)) = next(watch).await {
            return cluster.eds_service_name.to_string();
        }
    }
}

/// given a server that requires client certificates / then a poll with one gets a cluster and its changes; a poll
/// without one, with one of another authority, or in plaintext, gets the reason of the failure.
#[tokio::test]
async fn c16_c17_c266_our_server_is_polled_over_tls() {
    let (files, ours, theirs) = (Files::new(), authority(), authority());
    let issued = ours.issue(&["127.0.0.1"]).unwrap();
    let server = FolderServer::start_with(&cluster("old"), files.security(&issued, Some(&theirs)));
    let address = server.address();
    let client = client();
    let known = source_as(address, &files, &ours, &theirs);
    let mut watch = client.watch_from::<Cluster>(&known, "c").unwrap();
    assert_eq!(assignment(&mut watch).await, "old");
    server.write(&cluster("new"));
    assert_eq!(assignment(&mut watch).await, "new");

    let (anonymous, wrong_root) = (Files::new(), Files::new());
    let plaintext = Rest::new(&format!("http://{}", server.http_address())).unwrap();
    for (source, told) in [
        (
            source(address, anonymous.trusting(&ours)),
            "CertificateRequired",
        ),
        (
            source(address, wrong_root.trusting(&theirs)),
            "security handshake: invalid peer certificate",
        ),
        (
            plaintext.into(),
            "HTTP 403 Forbidden: client certificate required",
        ),
    ] {
        let mut watch = client.watch_from::<Cluster>(&source, "c").unwrap();
        let why = error(&mut watch, WatchErrorReason::Unreachable)
            .await
            .to_string();
        assert!(why.contains(told), "{why}");
    }
}

/// given a client that polls / when root and certificate of the server change, on disk and at the server / then the
/// next poll uses the new ones.
#[tokio::test]
async fn c18_c266_replaced_files_apply_to_the_next_poll() {
    let (files, before, after) = (Files::new(), authority(), authority());
    let mut server = files.serve(&before);
    let source = source(server.address(), files.trusting(&before));
    let client = client();
    let mut watch = client.watch_from::<Cluster>(&source, "c").unwrap();
    assert_eq!(assignment(&mut watch).await, "old");
    let issued = after.issue(&["127.0.0.1"]).unwrap();
    server.write(&cluster("new"));
    server.restart_with(files.security(&issued, None));
    let why = ambient(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(
        why.contains("https://") && !why.contains("HTTP 404"),
        "{why}"
    );
    files.write("ca.pem", &after.pem());
    assert_eq!(assignment(&mut watch).await, "new");
}

/// A server entry of a bootstrap, whose calls carry the token in this file.
fn showing(
    address: SocketAddr,
    credentials: Configured<dyn ChannelCredentials>,
    token: &std::path::Path,
) -> Server {
    let token = Arc::new(JwtTokenFile::new(token));
    let bootstrap = Bootstrap::builder(address.to_string())
        .credentials(credentials)
        .call_credentials(Configured::new("token", None, token))
        .build();
    bootstrap.unwrap().servers()[0].clone()
}

/// given call credentials with a token in a file / then every poll carries it over TLS, and none over plaintext; while
/// the token is missing, no poll is made, and the watcher gets the reason.
#[tokio::test]
async fn c34_c266_polls_carry_the_token_over_tls_only() {
    let (files, ours) = (Files::new(), authority());
    let plane = RestPlane::start().await.unwrap();
    let issued = ours.issue(&["127.0.0.1"]).unwrap();
    let acceptor = issued.acceptor(&["http/1.1"]).unwrap();
    let front = TlsFront::start(acceptor, plane.address()).await.unwrap();
    let tls = || Configured::tls(files.trusting(&ours));
    let (path, client) = (files.path("token"), client());

    let rest = Rest::of(showing(front.address(), tls(), &path));
    let source = rest.refresh_delay(DELAY).into();
    let mut watch = client.watch_from::<Cluster>(&source, "c").unwrap();
    let why = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(why.contains("token: No such file"), "{why}");
    assert!(plane.take_poll().is_none());

    let text = jwt("me", 4000);
    files.write("token", &text);
    for version in ["1", "2"] {
        let polled = plane.next_poll().await.unwrap();
        assert_eq!(polled.headers["authorization"], format!("Bearer {text}"));
        let cluster = resources::cluster("c", version);
        polled.respond(&ResourceType::CLUSTER, version, vec![cluster]);
        assert_eq!(&*value(&mut watch).await.eds_service_name, version);
    }
    drop(watch);

    let plaintext = showing(plane.address(), Configured::insecure(), &path);
    let source = Rest::of(plaintext).refresh_delay(DELAY).into();
    let _watch = client.watch_from::<Cluster>(&source, "c").unwrap();
    let polled = loop {
        let polled = plane.next_poll().await.unwrap();
        if polled.request.version_info.is_empty() {
            break polled;
        }
    };
    assert!(!polled.headers.contains_key("authorization"));
}
