//! TLS to control planes: whom the client believes, who it says it is, and files that change (gRFC A65).

use std::time::Duration;

use oxds_client::credentials::{CertificateFiles, TlsCredentials, Trust};
use oxds_client::transport::{DialError, Http, Keepalive, ServerUri, dial_with, open};
use oxds_core::resource::Cluster;
use oxds_testkit::certificates::replace;
use oxds_testkit::{ControlPlane, Manners, TlsFront};
use tonic::body::Body;

use crate::client_log::Log;
use crate::secured::{
    Files, assignment, authority, client, client_of, cluster, garble, refusal, sees_the_cluster,
};

/// given our server, with a certificate of one authority / then a client that believes it sees a cluster, and one that
/// believes another authority, or those of the system, sees why not.
#[tokio::test]
async fn c16_a_server_is_believed_by_the_authorities_of_the_file_and_no_others() {
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

/// given a server whose certificate has another name, or has expired / then the client sees that it is so.
#[tokio::test]
async fn c16_a_server_has_the_name_it_is_asked_for_by_and_a_certificate_that_is_valid_now() {
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

/// given a server that lets nobody in without a certificate / then a client with one sees a cluster, one without, or with
/// one of somebody else, sees that this is the reason.
#[tokio::test]
async fn c16_c17_a_client_shows_its_certificate() {
    let (files, ours, theirs) = (Files::new(), authority(), authority());
    let issued = ours.issue(&["127.0.0.1"]).unwrap();
    let security = files.security(&issued, Some(&theirs));
    let server = crate::support::ControlPlane::start_with(&cluster("old"), security);
    let nobody = files.trusting(&ours);
    let shown = |issued: &oxds_testkit::certificates::Issued| CertificateFiles {
        identity: Some(files.identity(issued)),
        ..nobody.clone()
    };
    sees_the_cluster(&client(
        server.address(),
        shown(&theirs.issue(&["me"]).unwrap()),
    ))
    .await;
    let why = refusal(&client(server.address(), nobody.clone())).await;
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

/// given a client that has seen a cluster / when authority and certificate of the server change, on disk and at the
/// server / then the next connection is by the new ones, and so is one of a client whose files were not due.
#[tokio::test]
async fn c18_files_that_were_replaced_count_for_the_next_connection() {
    let (files, before, after) = (Files::new(), authority(), authority());
    let mut server = files.serve(&before);
    let trusting = files.trusting(&before);
    let never = CertificateFiles {
        refresh_interval: Duration::from_secs(600),
        ..trusting.clone()
    };
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

/// given a client that has seen a cluster / when its files are replaced by garbage, and the connection breaks / then it
/// comes back by what the files held, and the log says why, once for each state of the files.
#[tokio::test]
async fn c18_garbage_in_a_file_changes_nothing_and_is_logged() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (files, ours) = (Files::new(), authority());
    let mut server = files.serve(&ours);
    let trusting = files.trusting(&ours);
    let trusted = files.path("ca.pem");
    let identity = files.identity(&ours.issue(&["me"]).unwrap());
    let with_identity = CertificateFiles {
        identity: Some(identity.clone()),
        ..trusting
    };
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
        complaint.contains("ca.pem") && complaint.contains("certificates stay as they were"),
        "{complaint}"
    );

    // A certificate is replaced before its key: for a moment they do not belong together.
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

/// given files that are not there yet / then the client says so; when they come, it connects.
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

/// given a server that takes connections and never says a word / then TLS ends with gRPC's connect timeout, and its socket
/// with it.
#[tokio::test(start_paused = true)]
async fn c16_a_handshake_that_never_ends_ends_with_the_connect_timeout() {
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

/// given servers over TLS that agree to nothing, or to HTTP/1.1 / then HTTP/2 is not spoken to them, and HTTP/1.1 is.
#[tokio::test]
async fn c16_a_server_that_does_not_agree_to_http_2_is_not_spoken_to_in_it() {
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
