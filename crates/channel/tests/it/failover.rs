//! Endpoints that fail, drain, and return.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oxds_channel::testing::{EchoBackend, cluster, config};
use tonic::Code;

use crate::support::{backends, call_once, channel, eventually, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Calls one after the other until stopped; the number of calls, none of which failed.
fn traffic(
    channel: &oxds_channel::XdsChannel,
    stop: &Arc<AtomicBool>,
) -> tokio::task::JoinHandle<usize> {
    let (channel, stop) = (channel.clone(), Arc::clone(stop));
    tokio::spawn(async move {
        let mut calls = 0;
        while !stop.load(Ordering::Relaxed) {
            call_once(&channel).await.expect("no call fails");
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
async fn c240_c242_a_failed_priority_hands_over_and_takes_back() {
    // given a first priority that works
    let [first, second] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[first.address()], &[second.address()]]));
    assert_eq!(spread(&channel, 10).await[&first.address()], 10);
    // then the second is not connected to
    assert_eq!(second.accepted(), 0);
    assert_eq!(channel.status().clusters[0].priority, Some(0));
    // when the first is killed while nothing is under way
    first.kill();
    eventually(|| channel.status().clusters[0].priority == Some(1)).await;
    // then the second serves
    assert_eq!(spread(&channel, 10).await[&second.address()], 10);
    // when the first returns
    first.restart().await.unwrap();
    eventually(|| channel.status().clusters[0].priority == Some(0)).await;
    // then it serves again, and the second is let go
    assert_eq!(spread(&channel, 10).await[&first.address()], 10);
    eventually(|| second.connections() == 0).await;
}

#[tokio::test]
async fn c241_when_every_priority_fails_rpcs_fail_with_an_endpoints_error() {
    let [first, second] = backends().await;
    first.kill();
    second.kill();
    let (script, channel) = channel();
    script.set(priorities(&[&[first.address()], &[second.address()]]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let expected = format!(
        "cluster one: no endpoint can be reached, the last one {}: ",
        second.address()
    );
    assert!(status.message().starts_with(&expected), "{status}");
}

#[tokio::test]
async fn c216_a_cluster_without_endpoints_fails_at_once() {
    let (script, channel) = channel();
    script.set(priorities(&[]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "cluster one: it has no usable endpoints");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_drains_loses_no_call() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[a.address(), b.address()]]));
    ready(&channel, 2).await;
    // given traffic
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..16).map(|_| traffic(&channel, &stop)).collect();
    // when one after the other shuts down in order and returns, again and again
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
async fn a_backend_that_crashes_fails_only_what_it_was_working_on() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[a.address(), b.address()]]));
    ready(&channel, 2).await;
    a.kill();
    // A crash is a closed socket: what is not under way there goes elsewhere, from the first call on.
    eventually(|| a.connections() == 0).await;
    let mut failed = 0;
    for _ in 0..200 {
        match call_once(&channel).await {
            Ok(address) => assert_eq!(address, b.address()),
            // Written in the instant before the kernel told of the close.
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                failed += 1;
            }
        }
    }
    assert!(failed <= 1, "{failed}");
}

#[tokio::test]
async fn a_call_under_way_outlives_its_endpoint_in_the_configuration() {
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
    // then it is answered nevertheless, and the connection closes behind it
    assert_eq!(call.await.unwrap().unwrap(), a.address());
    eventually(|| a.connections() == 0).await;
}

#[tokio::test]
async fn more_streams_than_a_connection_may_have_open_another() {
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
async fn a6_a_request_that_an_endpoint_refuses_goes_to_another() {
    // given an endpoint that refuses every stream, and one that does not
    let [good] = backends().await;
    let (refusing, refused) = refusing_backend().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[refusing, good.address()]]));
    ready(&channel, 2).await;
    // when calls are made
    let counts = spread(&channel, 40).await;
    // then all are answered by the one that works, though every other was offered to the first
    assert_eq!(counts[&good.address()], 40);
    assert!(refused.load(Ordering::Relaxed) >= 15, "{refused:?}");
}

#[tokio::test]
async fn a6_a_request_that_everyone_refuses_fails_in_the_end() {
    let (refusing, refused) = refusing_backend().await;
    let (script, channel) = channel();
    script.set(priorities(&[&[refusing]]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("keep refusing"), "{status}");
    assert_eq!(refused.load(Ordering::Relaxed), 6);
}

/// An HTTP/2 server that answers every stream with `REFUSED_STREAM`, and counts them.
async fn refusing_backend() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
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
