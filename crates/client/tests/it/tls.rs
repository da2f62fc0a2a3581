//! TLS to control planes: roots, client certificates, and files that change (gRFC A65).

use std::time::Duration;

use oxds_client::credentials::{CertificateFiles, TlsCredentials, Trust};
use oxds_client::transport::{DialError, Http, Keepalive, ServerUri, dial_with, open};
use oxds_core::resource::Cluster;
use oxds_testkit::certificates::replace;
use oxds_testkit::{ControlPlane, Manners, TlsFront};
use tonic::body::Body;

use crate::log::Log;
use crate::secured::{
    Files, assignment, authority, client, client_of, cluster, garble, refusal, sees_the_cluster,
};

/// given our server with a certificate of one authority / then a client with that root gets a cluster, and a client
/// with another root, or the system's, gets the reason of the failure.
#[tokio::test]
async fn c16_server_is_accepted_by_the_configured_roots_only() {
    let (files, ours) = (Files::new(), authority());
    let server = files.serve(&ours);
    sees_the_cluster(&client(server.address(), files.trusting(&ours))).await;
    for trusting in [files.trusting(&authority()), files.files(Trust::System)] {
        let why = refusal(&client(server.address(), trusting)).await;
        assert!(
            why.contains("security handshake: invalid peer certificate"),
            "{why}"
        );
    }
}

/// given a server whose certificate has another name or has expired / then the client reports that.
#[tokio::test]
async fn c16_server_certificate_must_match_name_and_time() {
    let (files, ours) = (Files::new(), authority());
    let mut server = files.serve(&ours);
    let by_name = format!("localhost:{}", server.address().port());
    let why = refusal(&client_of(&by_name, files.trusting(&ours))).await;
    assert!(why.contains("not valid for"), "{why}");
    let expired = ours.issue_expired(&["127.0.0.1"]).unwrap();
    server.restart_with(files.security(&expired, None));
    let why = refusal(&client(server.address(), files.trusting(&ours))).await;
    assert!(why.contains("expired"), "{why}");
}

/// given a server that requires client certificates / then a client with a valid one gets a cluster, and a client
/// without one, or with one of another authority, reports that reason.
#[tokio::test]
async fn c16_c17_client_sends_its_certificate() {
    let (files, ours, theirs) = (Files::new(), authority(), authority());
    let issued = ours.issue(&["127.0.0.1"]).unwrap();
    let security = files.security(&issued, Some(&theirs));
    let server = oxds_testkit::folder_server::FolderServer::start_with(&cluster("old"), security);
    let anonymous = files.trusting(&ours);
    let shown = |issued: &oxds_testkit::certificates::Issued| {
        anonymous.clone().with_identity(files.identity(issued))
    };
    sees_the_cluster(&client(
        server.address(),
        shown(&theirs.issue(&["me"]).unwrap()),
    ))
    .await;
    let why = refusal(&client(server.address(), anonymous.clone())).await;
    assert!(
        why.contains("security handshake") && why.contains("CertificateRequired"),
        "{why}"
    );
    let why = refusal(&client(
        server.address(),
        shown(&ours.issue(&["me"]).unwrap()),
    ))
    .await;
    assert!(
        why.contains("security handshake: received fatal alert"),
        "{why}"
    );
}

/// given a client that has a cluster / when root and certificate of the server change, on disk and at the server / then
/// the next connection uses the new ones, also for a client whose refresh interval has not passed.
#[tokio::test]
async fn c18_replaced_files_apply_to_the_next_connection() {
    let (files, before, after) = (Files::new(), authority(), authority());
    let mut server = files.serve(&before);
    let trusting = files.trusting(&before);
    let never = trusting
        .clone()
        .with_refresh_interval(Duration::from_secs(600));
    let (eager, lazy) = (
        client(server.address(), trusting),
        client(server.address(), never),
    );
    let (mut watch, mut stale) = (eager.watch::<Cluster>("c"), lazy.watch::<Cluster>("c"));
    assert_eq!(assignment(&mut watch).await, "old");
    assert_eq!(assignment(&mut stale).await, "old");

    files.write("ca.pem", &after.pem());
    let issued = after.issue(&["127.0.0.1"]).unwrap();
    server.write(&cluster("new"));
    server.restart_with(files.security(&issued, None));
    assert_eq!(assignment(&mut watch).await, "new");
    let why =
        crate::scripted::ambient(&mut stale, oxds_client::WatchErrorReason::Unreachable).await;
    assert!(
        why.to_string().contains("invalid peer certificate"),
        "{why}"
    );
}

/// given a client that has a cluster / when its files are replaced by garbage and the connection breaks / then it
/// reconnects with the previous contents, and logs the reason once per state of the files.
#[tokio::test]
async fn c18_garbage_in_a_file_changes_nothing_and_is_logged() {
    let (log, _listening) = Log::start();
    let (files, ours) = (Files::new(), authority());
    let mut server = files.serve(&ours);
    let trusting = files.trusting(&ours);
    let trusted = files.path("ca.pem");
    let identity = files.identity(&ours.issue(&["me"]).unwrap());
    let with_identity = trusting.with_identity(identity.clone());
    let client = client(server.address(), with_identity);
    let mut watch = client.watch::<Cluster>("c");
    assert_eq!(assignment(&mut watch).await, "old");
    log.take();

    garble(&trusted);
    server.write(&cluster("new"));
    server.restart();
    assert_eq!(assignment(&mut watch).await, "new");
    let complaints = complaints(&log);
    let [complaint] = &complaints[..] else {
        panic!("{complaints:?}");
    };
    assert!(
        complaint.starts_with("ERROR oxds::credentials: "),
        "{complaint}"
    );
    assert!(
        complaint.contains("ca.pem") && complaint.contains("certificates not reloaded"),
        "{complaint}"
    );

    // A certificate is replaced before its key: for a moment they do not match.
    files.write("ca.pem", &ours.pem());
    replace(
        &identity.certificate,
        &ours.issue(&["me"]).unwrap().certificate,
    )
    .unwrap();
    server.write(&cluster("newer"));
    server.restart();
    assert_eq!(assignment(&mut watch).await, "newer");
    assert!(complaints_of(&log, "client.pem"));
}

fn complaints(log: &Log) -> Vec<String> {
    let mut events = log.take();
    events.retain(|event| event.contains("oxds::credentials"));
    events
}

fn complaints_of(log: &Log, file: &str) -> bool {
    complaints(log).iter().any(|event| event.contains(file))
}

/// given files that do not exist yet / then the client reports that; when they appear, it connects.
#[tokio::test]
async fn c18_files_that_come_later_are_found() {
    let (files, ours) = (Files::new(), authority());
    let server = files.serve(&ours);
    let client = client(
        server.address(),
        files.files(Trust::Authorities(files.path("ca.pem"))),
    );
    let mut watch = client.watch::<Cluster>("c");
    let why = crate::scripted::error(&mut watch, oxds_client::WatchErrorReason::Unreachable).await;
    assert!(why.to_string().contains("ca.pem: No such file"), "{why}");
    files.write("ca.pem", &ours.pem());
    assert_eq!(assignment(&mut watch).await, "old");
}

/// given a server that accepts connections and stays silent / then the TLS handshake ends with gRPC's connect timeout,
/// and its socket closes.
#[tokio::test(start_paused = true)]
async fn c16_silent_handshake_ends_with_the_connect_timeout() {
    let server = ControlPlane::start().await.unwrap();
    server.set_manners(Manners::Silent);
    let uri = ServerUri::at(server.address());
    let credentials = TlsCredentials::new(CertificateFiles::default());
    let dialling = dial_with::<Body>(&uri, &credentials, Keepalive::default());
    let began = tokio::time::Instant::now();
    let error = dialling.await.map(|_| ()).unwrap_err();
    assert!(matches!(error, DialError::Timeout), "{error}");
    assert!(began.elapsed() >= Duration::from_secs(20));
    tokio::time::resume();
    server.has_connections(0).await.unwrap();
}

/// given TLS servers that agree on no protocol or on HTTP/1.1 / then the client does not use HTTP/2, and does use
/// HTTP/1.1.
#[tokio::test]
async fn c16_http2_needs_agreement_by_alpn() {
    let (files, ours) = (Files::new(), authority());
    let behind = ControlPlane::start().await.unwrap();
    let issued = ours.issue(&["127.0.0.1"]).unwrap();
    let credentials = TlsCredentials::new(files.trusting(&ours));
    for protocols in [&[][..], &["http/1.1"]] {
        let acceptor = issued.acceptor(protocols).unwrap();
        let front = TlsFront::start(acceptor, behind.address()).await.unwrap();
        let uri = ServerUri::at(front.address());
        let dialled = dial_with::<Body>(&uri, &credentials, Keepalive::default()).await;
        let error = dialled.map(|_| ()).unwrap_err();
        assert!(matches!(error, DialError::Security(_)), "{error}");
        open(&uri, &credentials, Http::One).await.unwrap();
    }
}
