//! Tests of endpoints that fail, drain and restart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oxds_channel::testing::{EchoBackend, cluster, config};
use oxds_testkit::SOON;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::support::{backends, call_once, channel, eventually, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Makes calls one after the other until stopped. Returns their number; panics if one fails.
fn traffic(
    channel: &oxds_channel::XdsChannel,
    stop: &Arc<AtomicBool>,
) -> tokio::task::JoinHandle<usize> {
    let (channel, stop) = (channel.clone(), Arc::clone(stop));
    tokio::spawn(async move {
        let mut calls = 0;
        while !stop.load(Ordering::Relaxed) {
            let called = call_once(&channel).await;
            assert!(called.is_ok(), "{called:?}: {:#?}", channel.status());
            calls += 1;
        }
        calls
    })
}

fn priorities(levels: &[&[SocketAddr]]) -> oxds_channel::testing::Resources {
    let levels: Vec<Vec<_>> = levels
        .iter()
        .map(|level| vec![("here", 1, *level)])
        .collect();
    let levels: Vec<_> = levels.iter().map(Vec::as_slice).collect();
    config(ALL, vec![cluster("one", &levels, 0)])
}

#[tokio::test]
async fn c240_c242_traffic_fails_over_and_returns() {
    // given a ready first priority
    let [first, second] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[first.address()], &[second.address()]]));
    assert_eq!(spread(&channel, 10).await[&first.address()], 10);
    // then the second is not connected to
    assert_eq!(second.accepted(), 0);
    assert_eq!(channel.status().clusters[0].priority, Some(0));
    // when the first is killed while no call is under way
    first.kill();
    eventually(|| channel.status().clusters[0].priority == Some(1)).await;
    // then the second gets the calls
    assert_eq!(spread(&channel, 10).await[&second.address()], 10);
    // when the first restarts
    first.restart().await.unwrap();
    eventually(|| channel.status().clusters[0].priority == Some(0)).await;
    // then it gets the calls again, and the connection to the second closes
    assert_eq!(spread(&channel, 10).await[&first.address()], 10);
    eventually(|| second.connections() == 0).await;
}

#[tokio::test]
async fn c241_all_priorities_failed_rpc_fails_with_endpoint_error() {
    let [first, second] = backends().await;
    first.kill();
    second.kill();
    let (script, channel) = channel();
    script.set(priorities(&[&[first.address()], &[second.address()]]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let expected = format!(
        "cluster one: all endpoints unreachable, last error {}: ",
        second.address()
    );
    assert!(status.message().starts_with(&expected), "{status}");
}

#[tokio::test]
async fn c247_failed_rpc_has_the_error_of_the_last_attempt() {
    // given an endpoint that refuses connections
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (script, channel) = channel();
    script.set(priorities(&[&[address]]));
    let status = call_once(&channel).await.unwrap_err();
    assert!(status.message().contains("refused"), "{status}");
    // when the next attempt finds a server of another protocol
    let listener = TcpListener::bind(address).await.unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
        }
    });
    // then RPCs fail with its error
    let deadline = Instant::now() + SOON;
    loop {
        let status = call_once(&channel).await.unwrap_err();
        if status.message().contains("HTTP/1.1") {
            break;
        }
        assert!(Instant::now() < deadline, "{status}");
        sleep(Duration::from_millis(20)).await;
    }
    server.abort();
}

#[tokio::test]
async fn c216_cluster_without_endpoints_fails_rpcs_at_once() {
    let (script, channel) = channel();
    script.set(priorities(&[]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "cluster one: no usable endpoints");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_backend_fails_no_call() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[a.address(), b.address()]]));
    ready(&channel, 2).await;
    // given traffic
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..16).map(|_| traffic(&channel, &stop)).collect();
    // when the backends drain and restart in turn
    for round in 0..6 {
        let (drained, other): (&EchoBackend, _) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        eventually(|| drained.connections() > 0 && other.connections() > 0).await;
        drained.drain();
        eventually(|| drained.connections() == 0).await;
        drained.restart().await.unwrap();
        ready(&channel, 2).await;
    }
    // then no call failed
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        assert!(task.await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_backend_fails_only_its_calls_under_way() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[a.address(), b.address()]]));
    ready(&channel, 2).await;
    a.kill();
    // A crash closes the sockets: every later call goes to the other backend.
    eventually(|| a.connections() == 0).await;
    let mut failed = 0;
    for _ in 0..200 {
        match call_once(&channel).await {
            Ok(address) => assert_eq!(address, b.address()),
            // The call was written before the kernel reported the close.
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                failed += 1;
            }
        }
    }
    assert!(failed <= 1, "{failed}");
}

#[tokio::test]
async fn removed_endpoint_finishes_its_call_under_way() {
    let [a, b] = backends().await;
    a.set_delay(Duration::from_millis(200));
    let (script, channel) = channel();
    script.set(priorities(&[&[a.address()]]));
    let call = tokio::spawn({
        let channel = channel.clone();
        async move { call_once(&channel).await }
    });
    eventually(|| a.calls() == 1).await;
    // when its endpoint is removed
    script.set(priorities(&[&[b.address()]]));
    assert_eq!(spread(&channel, 1).await.len(), 1);
    // then the call still gets its response, and the connection closes afterwards
    assert_eq!(call.await.unwrap().unwrap(), a.address());
    eventually(|| a.connections() == 0).await;
}

#[tokio::test]
async fn a105_full_connection_opens_another() {
    let [a] = backends().await;
    a.set_max_streams(4);
    a.set_delay(Duration::from_millis(50));
    let (script, channel) = channel();
    script.set(priorities(&[&[a.address()]]));
    spread(&channel, 1).await;
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move { call_once(&channel).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(a.accepted() > 1, "{}", a.accepted());
}

#[tokio::test]
async fn a6_refused_stream_goes_to_another_endpoint() {
    // given an endpoint that refuses every stream, and one that works
    let [good] = backends().await;
    let (refusing, refused) = refusing_backend().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[refusing, good.address()]]));
    ready(&channel, 2).await;
    // when calls are made
    let counts = spread(&channel, 40).await;
    // then the working endpoint answers all calls, and about every second was refused before
    assert_eq!(counts[&good.address()], 40);
    assert!(refused.load(Ordering::Relaxed) >= 15, "{refused:?}");
}

#[tokio::test]
async fn a6_request_refused_by_all_endpoints_fails() {
    let (refusing, refused) = refusing_backend().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[refusing]]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("keep refusing"), "{status}");
    assert_eq!(refused.load(Ordering::Relaxed), 6);
}

/// Starts an HTTP/2 server that refuses every stream with `REFUSED_STREAM`, and counts them.
async fn refusing_backend() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (address, refused)
}
