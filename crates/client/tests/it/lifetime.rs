//! Sharing of clients, and their end with the last handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxds_client::metrics::{Instrument, Recorder};
use oxds_client::{ConfigWatch, Target, Update};
use oxds_core::resource::Cluster;
use oxds_testkit::resources::cluster;
use oxds_testkit::{ControlPlane, Manners};
use oxds_types::ResourceType;

use crate::scripted::{acknowledged, essence, pool, pool_of, start, value};

/// given a client with a value / when its last handle and its last watch are dropped, in either order / then its stream
/// and its socket close.
#[tokio::test]
async fn c99_last_handle_closes_stream_and_socket() {
    for watch_first in [true, false] {
        let (server, client) = start().await;
        let (mut stream, watch) = acknowledged(&server, &client, cluster("c", "e")).await;
        if watch_first {
            drop(watch);
            drop(client);
        } else {
            drop(client);
            // The watch is a handle, too.
            stream.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
            stream.request().await.unwrap();
            drop(watch);
        }
        stream.ended().await.unwrap();
        server.has_connections(0).await.unwrap();
    }
}

/// given a client that is still connecting / when its last handle is dropped / then its socket closes.
#[tokio::test]
async fn c99_last_handle_cancels_connecting() {
    let (server, client) = start().await;
    server.set_manners(Manners::Silent);
    let watch = client.watch::<Cluster>("c");
    server.has_connections(1).await.unwrap();
    drop((client, watch));
    server.has_connections(0).await.unwrap();
}

/// given a control plane that withholds its headers / when the last handle is dropped / then its socket closes.
#[tokio::test]
async fn c99_last_handle_cancels_an_unanswered_stream() {
    let (server, client) = start().await;
    let watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    drop((client, watch));
    stream.ended().await.unwrap();
    server.has_connections(0).await.unwrap();
}

/// given three channels, two of them to one target / then these two share a client and its connection, and the third
/// has its own; when one of the two is dropped / then the shared connection stays; when both are dropped / then it
/// closes.
#[tokio::test]
async fn c146_target_has_one_client_while_in_use() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let target = |name| Target::parse(name).unwrap();
    let one = ConfigWatch::new(&pool, &target("xds:///a")).unwrap();
    // The same target in its short form.
    let two = ConfigWatch::new(&pool, &target("xds:a")).unwrap();
    let mut stream = server.next_stream().await.unwrap();
    assert_eq!(stream.request().await.unwrap().resource_names, ["a"]);

    let three = ConfigWatch::new(&pool, &target("xds:///b")).unwrap();
    let mut other = server.next_stream().await.unwrap();
    assert_eq!(other.request().await.unwrap().resource_names, ["b"]);
    assert_eq!(server.accepted(), 2);

    drop(one);
    stream.respond(&ResourceType::LISTENER, "1", Vec::new());
    let ack = stream.request().await.unwrap();
    assert_eq!(ack.resource_names, ["a"], "still watched by the second");

    drop(two);
    stream.ended().await.unwrap();
    server.has_connections(1).await.unwrap();
    drop(three);
    other.ended().await.unwrap();
    server.has_connections(0).await.unwrap();
    assert_eq!(server.accepted(), 2);
}

/// given one pool, and a runtime that has ended with its client / when the target is used in another runtime / then it
/// gets a new client that works.
#[test]
fn client_of_an_ended_runtime_is_replaced() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let server_runtime = runtime();
    let server = server_runtime.block_on(ControlPlane::start()).unwrap();
    let pool = pool(&server);

    let gone = runtime();
    let (_stale, mut watch, mut config) = gone.block_on(async {
        let client = pool.client("test");
        let watch = client.watch::<Cluster>("c");
        let target = Target::parse("xds:///shop").unwrap();
        (client, watch, ConfigWatch::new(&pool, &target).unwrap())
    });
    drop(gone);

    server_runtime.block_on(async {
        assert_eq!(watch.next().await, None, "its client is gone");
        let why = config.next().await.unwrap_err().to_string();
        assert!(why.contains("runtime has stopped"), "{why}");
        acknowledged(&server, &pool.client("test"), cluster("c", "e")).await;
    });
}

/// A recorder that panics at the first resource.
#[derive(Debug, Default)]
struct PanicsOnce(AtomicBool);

impl Recorder for PanicsOnce {
    fn add(&self, counter: &'static Instrument, _: &[&str], _: u64) {
        let is_first = counter.name == "grpc.xds_client.resource_updates_valid"
            && !self.0.swap(true, Ordering::Relaxed);
        assert!(!is_first, "the recorder is broken");
    }

    fn set(&self, _: &'static Instrument, _: &[&str], _: i64) {}

    fn end(&self, _: &'static Instrument, _: &[&str]) {}
}

/// given an application's recorder that panics in the client's task / when the first resource comes / then the task
/// starts again: the watch stays, and gets the resource on a new stream; the client ends as always.
#[tokio::test]
async fn client_starts_again_after_a_panic() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server).with_recorder(Arc::new(PanicsOnce::default()));
    let client = pool.client("test");
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    stream.ended().await.unwrap();
    let mut stream = server.next_stream().await.unwrap();
    let first = stream.request().await.unwrap();
    assert_eq!(essence(&first), (vec!["c"], "", ""));
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    value(&mut watch).await;
    // A watch that begins later works, too.
    let mut other = client.watch::<Cluster>("d");
    assert_eq!(stream.request().await.unwrap().resource_names, ["c"]);
    assert_eq!(stream.request().await.unwrap().resource_names, ["c", "d"]);
    let both = vec![cluster("c", "e"), cluster("d", "e")];
    stream.respond(&ResourceType::CLUSTER, "2", both);
    value(&mut other).await;
    drop((watch, other, client));
    stream.ended().await.unwrap();
    server.has_connections(0).await.unwrap();
}

/// given every form of `server_uri` / when a cluster is watched / then the client connects (C-10).
#[tokio::test]
async fn c10_every_form_of_server_uri_dials() {
    let server = ControlPlane::start().await.unwrap();
    let port = server.address().port();
    for uri in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("dns:localhost:{port}"),
        format!("dns:///localhost:{port}"),
        format!("ipv4:127.0.0.1:{port}"),
    ] {
        dials(&server, &uri).await;
    }
}

#[tokio::test]
async fn c10_a_unix_path_dials() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("xds.sock");
    let server = ControlPlane::start_unix(&path).unwrap();
    let path = path.display();
    for uri in [format!("unix:{path}"), format!("unix://{path}")] {
        dials(&server, &uri).await;
    }
}

#[tokio::test]
async fn c10_an_ipv6_address_dials() {
    // Needs IPv6 on this machine; asserts nothing without it.
    let Ok(server) = ControlPlane::start_on("[::1]:0".parse().unwrap()).await else {
        eprintln!("skipped: this machine has no [::1]");
        return;
    };
    let port = server.address().port();
    for uri in [format!("[::1]:{port}"), format!("ipv6:[::1]:{port}")] {
        dials(&server, &uri).await;
    }
}

/// given a server with two addresses, the first of which accepts connections and stays silent / then the second is
/// dialled too (RFC 8305, d9), long before the first attempt ends after 20 s.
#[tokio::test(start_paused = true)]
async fn c10_silent_address_takes_no_time_from_the_next() {
    let (silent, server) = (
        ControlPlane::start().await.unwrap(),
        ControlPlane::start().await.unwrap(),
    );
    silent.set_manners(Manners::Silent);
    server.set_manners(Manners::Refuse(tonic::Code::Aborted, "here".to_owned()));
    let begun = tokio::time::Instant::now();
    let uri = format!("ipv4:{},{}", silent.address(), server.address());
    let mut watch = pool_of(&uri).client("test").watch::<Cluster>("c");
    let Some(Update::Changed(Err(why))) = watch.next().await else {
        panic!("no error");
    };
    assert!(why.to_string().contains("here"), "{why}");
    assert!(begun.elapsed().as_secs() < 20);
    assert_eq!(silent.accepted(), 1);
}

async fn dials(server: &ControlPlane, uri: &str) {
    let client = pool_of(uri).client("test");
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "e", "{uri}");
}
