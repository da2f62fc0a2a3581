//! Tests of clusters that the routes drop while calls use them (gRFC A31, C-231).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_channel::testing::{Resources, Script, cluster, config};
use oxds_channel::{WaitForReady, XdsChannel};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::support::{
    SOON, SilentBackend, backends, call_once, channel, eventually, quick_retries, ready, spread,
    until_polled,
};
use crate::tonic_client::{EchoClient, Text};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const LONG: Duration = Duration::from_secs(3600);

/// Routes everything to the cluster of this name, with a policy that retries broken calls.
fn to(name: &str, endpoints: &[SocketAddr]) -> Resources {
    let policy = quick_retries(5);
    let spec = cluster(name, &[&[("here", 1, endpoints)]], 0);
    config(ALL, vec![spec]).map_routes(|forward| forward.retry = Some(Arc::clone(&policy)))
}

/// The same without retries.
fn without_retries(name: &str, endpoints: &[SocketAddr]) -> Resources {
    to(name, endpoints).map_routes(|forward| forward.retry = None)
}

fn call(channel: &XdsChannel) -> JoinHandle<Result<SocketAddr, Status>> {
    let channel = channel.clone();
    tokio::spawn(async move { call_once(&channel).await })
}

/// Changes the routes to the cluster `b`, and returns when new calls go there.
async fn move_to_b(script: &Script, channel: &XdsChannel, b: SocketAddr) {
    script.set(to("b", &[b]));
    eventually(|| &*channel.status().clusters[0].name == "b").await;
    assert_eq!(spread(channel, 10).await[&b], 10);
}

#[tokio::test]
async fn c231_retry_stays_in_the_dropped_cluster() {
    // given a call that hangs in one of the two endpoints of a cluster
    let [first, second, b] = backends().await;
    let (script, channel) = channel();
    script.set(to("a", &[first.address(), second.address()]));
    ready(&channel, 2).await;
    first.set_delay(LONG);
    second.set_delay(LONG);
    let hanging = call(&channel);
    eventually(|| first.calls() + second.calls() == 1).await;
    let (used, other) = match first.calls() {
        1 => (&first, &second),
        _ => (&second, &first),
    };
    other.set_delay(Duration::ZERO);
    // when the routes drop the cluster
    move_to_b(&script, &channel, b.address()).await;
    let calls_of_b = b.calls();
    // then it stays connected, and the retry of the call goes to it
    assert_eq!(other.connections(), 1);
    used.kill();
    assert_eq!(hanging.await.unwrap().unwrap(), other.address());
    assert_eq!((other.calls(), b.calls()), (1, calls_of_b));
    // and it is released with the response
    eventually(|| other.connections() == 0).await;
    assert_eq!((other.accepted(), b.accepted()), (1, 1));
}

#[tokio::test]
async fn c231_waiting_call_stays_in_the_dropped_cluster() {
    // given a call that waits for an endpoint, which has not answered yet
    let silent = SilentBackend::start().await;
    let address = silent.address();
    let [b] = backends().await;
    let (script, channel) = channel();
    script.set(without_retries("a", &[address]));
    eventually(|| channel.status().clusters.len() == 1).await;
    let waiting = call(&channel);
    until_polled().await;
    // when the routes drop the cluster, then new calls go elsewhere
    move_to_b(&script, &channel, b.address()).await;
    assert!(!waiting.is_finished());
    // and when the endpoint answers, it gets the waiting call
    let serving = silent.answer(5);
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    serving.abort();
}

#[tokio::test]
async fn c231_waiting_call_fails_with_the_dropped_cluster() {
    // given a call that waits for an endpoint
    let silent = SilentBackend::start().await;
    let address = silent.address();
    let [b] = backends().await;
    let (script, channel) = channel();
    script.set(without_retries("a", &[address]));
    eventually(|| channel.status().clusters.len() == 1).await;
    let waiting = call(&channel);
    until_polled().await;
    move_to_b(&script, &channel, b.address()).await;
    // when the endpoint fails after the routes dropped the cluster
    drop(silent);
    // then the call fails with the reason
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let message = status.message();
    assert!(message.starts_with("cluster a: all endpoints"), "{status}");
    assert!(
        message.ends_with("no route names the cluster any more"),
        "{status}"
    );
}

#[tokio::test]
async fn c231_wait_for_ready_ends_with_the_dropped_cluster() {
    // given a wait-for-ready call that waits for a failed cluster to recover
    let [a, b] = backends().await;
    a.kill();
    let (script, channel) = channel();
    script.set(without_retries("a", &[a.address()]));
    eventually(|| {
        let clusters = channel.status().clusters;
        clusters.first().is_some_and(|one| one.error.is_some())
    })
    .await;
    let mut client = EchoClient::new(channel.clone());
    let mut request = Request::new(Text::default());
    request.set_timeout(SOON);
    request.extensions_mut().insert(WaitForReady(true));
    let waiting = tokio::spawn(async move { client.unary(request).await.map(drop) });
    until_polled().await;
    assert!(!waiting.is_finished());
    // when the routes drop the cluster, then the call does not wait for what cannot come
    script.set(to("b", &[b.address()]));
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("no route names"), "{status}");
}

#[tokio::test]
async fn c231_dropped_cluster_that_returns_keeps_its_connections() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(to("a", &[a.address()]));
    ready(&channel, 1).await;
    a.set_delay(LONG);
    let hanging = call(&channel);
    eventually(|| a.calls() == 1).await;
    move_to_b(&script, &channel, b.address()).await;
    // when the routes name the cluster again
    a.set_delay(Duration::ZERO);
    script.set(to("a", &[a.address()]));
    eventually(|| &*channel.status().clusters[0].name == "a").await;
    assert_eq!(spread(&channel, 5).await[&a.address()], 5);
    assert_eq!(a.accepted(), 1);
    // and when its last call from before ends, it stays
    hanging.abort();
    let _ = hanging.await;
    assert_eq!(spread(&channel, 5).await[&a.address()], 5);
    eventually(|| b.connections() == 0).await;
    assert_eq!(a.accepted(), 1);
}

#[tokio::test]
async fn c231_cancelled_call_releases_the_dropped_cluster() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(to("a", &[a.address()]));
    ready(&channel, 1).await;
    a.set_delay(LONG);
    let hanging = call(&channel);
    eventually(|| a.calls() == 1).await;
    move_to_b(&script, &channel, b.address()).await;
    assert_eq!(a.connections(), 1);
    hanging.abort();
    eventually(|| a.connections() == 0).await;
}

#[tokio::test]
async fn c231_call_outlives_a_configuration_that_is_gone() {
    // given a call that waits for an endpoint
    let silent = SilentBackend::start().await;
    let address = silent.address();
    let (script, channel) = channel();
    script.set(without_retries("a", &[address]));
    eventually(|| channel.status().clusters.len() == 1).await;
    let waiting = call(&channel);
    until_polled().await;
    // when the listener is deleted, then new calls fail (C-219)
    script.fail("no such listener");
    eventually(|| channel.status().error.is_some()).await;
    call_once(&channel).await.unwrap_err();
    // and the waiting one is sent to the cluster that it chose
    let serving = silent.answer(5);
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    serving.abort();
}
