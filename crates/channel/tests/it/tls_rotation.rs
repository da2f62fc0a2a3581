//! Certificates that appear, change and disappear; sessions (gRFC A29, A65).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use oxds_channel::XdsChannel;
use oxds_channel::testing::config;
use oxds_testkit::certificates::{Authority, replace};
use tokio::task::JoinHandle;

use crate::support::{call_once, eventually, ready};
use crate::tls_support::{ALL, H2, Mesh, mutual, secured};

/// Calls without a pause, until stopped.
struct Calls {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    task: JoinHandle<Result<(), tonic::Status>>,
}

impl Calls {
    fn start(channel: &XdsChannel) -> Self {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (channel, of_task) = (channel.clone(), (Arc::clone(&stop), Arc::clone(&done)));
        let task = tokio::spawn(async move {
            while !of_task.0.load(Ordering::SeqCst) {
                call_once(&channel).await?;
                of_task.1.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
        Self { stop, done, task }
    }

    /// Waits for some more calls.
    async fn more(&self) {
        let before = self.done.load(Ordering::SeqCst);
        eventually(|| self.done.load(Ordering::SeqCst) > before + 20 || self.task.is_finished())
            .await;
    }

    /// Ends the calls; none may have failed.
    async fn none_failed(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a29_files_may_appear_after_the_start() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a"]).await;
    let ca = mesh.path("ca.pem");
    std::fs::remove_file(&ca).unwrap();
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    let status = call_once(&channel).await.unwrap_err();
    let expected = format!("certificate provider instance \"mesh\": {}: ", ca.display());
    assert!(status.message().contains(&expected), "{status}");
    replace(&ca, &mesh.authority.pem()).unwrap();
    ready(&channel, 1).await;
    call_once(&channel).await.unwrap();
}

#[tokio::test]
async fn a29_open_connections_keep_their_certificates() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a"]).await;
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    let calls = Calls::start(&channel);
    calls.more().await;
    let first = front.client_certificate();
    let next = Authority::new("next").unwrap();
    let server = next.issue(&["a"]).unwrap();
    front.set_acceptor(server.mutual_acceptor(&[&next], H2).unwrap());
    mesh.own(&next.issue(&["spiffe://mesh/next"]).unwrap());
    mesh.trust(&next);
    calls.more().await;
    calls.none_failed().await;
    assert_eq!(front.handshakes(), 1);
    front.disconnect();
    eventually(|| front.handshakes() == 2).await;
    ready(&channel, 1).await;
    call_once(&channel).await.unwrap();
    assert_ne!(front.client_certificate(), first);
}

/// given a backend that ends each connection after some calls / when an authority is replaced by another one, step by
/// step / then the certificates of both sides are new, and no call fails.
#[tokio::test]
async fn a29_rotation_under_calls_fails_none() {
    let mesh = Mesh::new();
    let (backend, front) = mesh.backend(&["a"]).await;
    backend.set_max_requests(10);
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    let calls = Calls::start(&channel);
    let reconnected = async || {
        let before = front.handshakes();
        eventually(|| front.handshakes() > before + 1 || calls.task.is_finished()).await;
    };
    reconnected().await;
    let first = front.client_certificate();
    let (old, next) = (&mesh.authority, Authority::new("next").unwrap());
    // Both sides trust both authorities, then get new certificates, then trust the new one only.
    replace(&mesh.path("ca.pem"), &(old.pem() + &next.pem())).unwrap();
    let server = mesh.issue(&["a"]);
    front.set_acceptor(server.mutual_acceptor(&[old, &next], H2).unwrap());
    reconnected().await;
    mesh.own(&next.issue(&["spiffe://mesh/next"]).unwrap());
    reconnected().await;
    let server = next.issue(&["a"]).unwrap();
    front.set_acceptor(server.mutual_acceptor(&[&next], H2).unwrap());
    reconnected().await;
    mesh.trust(&next);
    reconnected().await;
    calls.none_failed().await;
    assert_ne!(front.client_certificate(), first);
}

#[tokio::test]
async fn a65_half_written_certificates_change_nothing() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a"]).await;
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    call_once(&channel).await.unwrap();
    let first = front.client_certificate();
    let next = mesh.issue(&["spiffe://mesh/next"]);
    let reconnect = async |count: usize| {
        front.disconnect();
        eventually(|| front.handshakes() == count).await;
        ready(&channel, 1).await;
        call_once(&channel).await.unwrap();
    };
    // The certificate is new, the key still old.
    replace(&mesh.path("client.pem"), &next.certificate).unwrap();
    reconnect(2).await;
    assert_eq!(front.client_certificate(), first, "the last valid ones");
    std::fs::remove_file(mesh.path("ca.pem")).unwrap();
    reconnect(3).await;
    replace(&mesh.path("client.key"), &next.key).unwrap();
    reconnect(4).await;
    assert_ne!(front.client_certificate(), first);
}

#[tokio::test]
async fn a29_next_connection_resumes_the_session() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a"]).await;
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    call_once(&channel).await.unwrap();
    assert_eq!((front.handshakes(), front.resumed()), (1, 0));
    front.disconnect();
    eventually(|| front.handshakes() == 2).await;
    ready(&channel, 1).await;
    call_once(&channel).await.unwrap();
    assert_eq!(front.resumed(), 1);
}
