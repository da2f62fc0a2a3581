//! Tests of connections that the server ends: by GOAWAY, orderly or not, and in the middle of a call.

use std::time::Duration;

use oxds_channel::testing::{Call, call, cluster, config};
use tokio::time::timeout;
use tonic::Code;

use crate::raw::{GoAway, RawBackend};
use crate::support::{SOON, backends, call_once, channel, eventually, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Less than the backoffs of ten connections in a row (1 s, 1.6 s, 2.56 s, …), and many times what the calls take.
const NO_BACKOFF: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orderly_goaways_do_not_start_backoff() {
    // given a backend that ends each connection after ten requests, as Envoy does with max_requests_per_connection
    let [backend] = backends().await;
    backend.set_max_requests(10);
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[backend.address()])]], 0)],
    ));
    // when five hundred calls are made
    let calls = timeout(NO_BACKOFF, spread(&channel, 500));
    // then all succeed, over connections that never wait for a backoff
    assert_eq!(calls.await.unwrap()[&backend.address()], 500);
    assert!(backend.accepted() >= 50, "{}", backend.accepted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaways_of_all_endpoints_fail_no_call() {
    // given four such backends, and sixteen callers
    let backends = backends::<4>().await;
    let addresses = backends
        .each_ref()
        .map(oxds_channel::testing::EchoBackend::address);
    for backend in &backends {
        backend.set_max_requests(7);
    }
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &addresses)]], 0)],
    ));
    let callers = (0..16).map(|_| {
        let channel = channel.clone();
        tokio::spawn(async move { spread(&channel, 100).await })
    });
    let callers: Vec<_> = callers.collect();
    let all = timeout(NO_BACKOFF, async {
        for caller in callers {
            caller.await.unwrap();
        }
    });
    all.await.unwrap();
    let accepted: u64 = backends
        .iter()
        .map(oxds_channel::testing::EchoBackend::accepted)
        .sum();
    assert!(accepted >= 100, "{accepted}");
}

#[tokio::test]
async fn next_connection_is_dialled_before_the_old_one_ends() {
    // given a backend that sends GOAWAY with its first request, and does not answer it yet
    let [backend] = backends().await;
    backend.set_max_requests(1);
    backend.set_delay(SOON);
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[backend.address()])]], 0)],
    ));
    let slow = tokio::spawn({
        let channel = channel.clone();
        async move { call(&channel, Call::default()).await }
    });
    // then the next connection opens while the first one has its call
    eventually(|| backend.accepted() == 2 && backend.connections() == 2).await;
    ready(&channel, 1).await;
    assert!(!slow.is_finished());
    // and serves the next call
    backend.set_delay(Duration::ZERO);
    call_once(&channel).await.unwrap();
    slow.abort();
}

#[tokio::test]
async fn goaway_without_any_call_is_dialled_again_at_once() {
    // given a backend that sends GOAWAY on its first connections as soon as they are open
    let backend = RawBackend::start(|connection| match connection {
        0..4 => GoAway::at_once(0),
        _ => GoAway::never(),
    })
    .await;
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[backend.address()])]], 0)],
    ));
    // then calls succeed, and no dial waited for the backoff of a failed one
    call_once(&channel).await.unwrap();
    assert_eq!(backend.accepted(), 5);
}

#[tokio::test]
async fn goaway_with_error_retries_calls_it_does_not_cover() {
    for code in [11, 2, 1] {
        // given an endpoint that answers each request with GOAWAY (ENHANCE_YOUR_CALM, INTERNAL_ERROR, PROTOCOL_ERROR)
        // that covers no stream, and one that works
        let [good] = backends().await;
        let bad = RawBackend::start(move |_| GoAway::on_request(0, code)).await;
        let (script, channel) = channel();
        let addresses = [bad.address(), good.address()];
        script.set(config(
            ALL,
            vec![cluster("one", &[&[("here", 1, &addresses)]], 0)],
        ));
        eventually(|| bad.accepted() > 0 && good.accepted() > 0).await;
        // then the one that works answers all calls
        let counts = spread(&channel, 20).await;
        assert_eq!(counts[&good.address()], 20);
        assert!(bad.requests() > 0);
    }
}

#[tokio::test]
async fn goaway_that_covers_the_call_is_not_retried() {
    // given an endpoint that may have processed the request, according to its GOAWAY
    let backend = RawBackend::start(|_| GoAway::on_request(1, 2).and_close()).await;
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[backend.address()])]], 0)],
    ));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(backend.requests(), 1);
}

#[tokio::test]
async fn uncovered_stream_fails_with_unavailable() {
    // given a streaming request, which the channel cannot send again
    let backend = RawBackend::start(|_| GoAway::on_request(0, 11)).await;
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &[backend.address()])]], 0)],
    ));
    let mut client = crate::tonic_client::EchoClient::new(channel.clone());
    let status = client.stream(tokio_stream::pending()).await.unwrap_err();
    // gRPC: a GOAWAY makes its calls UNAVAILABLE, whatever its code is.
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

/// The write of a request meets a closed socket in which a GOAWAY waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn goaway_behind_a_failed_write_is_obeyed() {
    // given four endpoints; one answers each request with GOAWAY, and closes at once
    let [a, b, c] = backends().await;
    let bad = RawBackend::start(|_| GoAway::on_request(0, 0).and_close()).await;
    let (script, channel) = channel();
    let addresses = [bad.address(), a.address(), b.address(), c.address()];
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("here", 1, &addresses)]], 0)],
    ));
    eventually(|| bad.accepted() > 0 && a.accepted() > 0).await;
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let channel = channel.clone();
            tokio::spawn(async move { spread(&channel, 50).await })
        })
        .collect();
    // then no call fails
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(bad.requests() > 0);
}
