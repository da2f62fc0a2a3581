//! Tests of circuit breaking: the limit of concurrent requests of a cluster (gRFC A32).

use std::time::Duration;

use oxds_channel::XdsChannel;
use oxds_channel::testing::{EchoBackend, Script, cluster, config};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::support::{backends, call_once, channel, eventually, ready};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Puts a cluster of this name with one endpoint and a limit of two requests into use.
async fn limited(name: &str, backend: &EchoBackend, script: &Script, channel: &XdsChannel) {
    let addresses = [backend.address()];
    let spec = cluster(name, &[&[("here", 1, &addresses)]], 0);
    script.set(config(ALL, vec![spec.max_requests(2)]));
    ready(channel, 1).await;
}

/// Starts a call, and returns when it has reached a backend.
async fn held(
    channel: &XdsChannel,
    backend: &EchoBackend,
) -> JoinHandle<Result<std::net::SocketAddr, Status>> {
    let before = backend.calls();
    let channel = channel.clone();
    let call = tokio::spawn(async move { call_once(&channel).await });
    eventually(|| backend.calls() > before).await;
    call
}

#[track_caller]
fn assert_dropped(status: &Status, cluster: &str) {
    assert_eq!(status.code(), Code::Unavailable);
    let text = format!("cluster {cluster}: dropped, 2 requests are in progress");
    assert_eq!(status.message(), text);
}

#[tokio::test]
async fn c246_request_above_the_limit_is_dropped() {
    // given a cluster with a limit of two, and two requests in progress
    let [backend] = backends().await;
    let (script, channel) = channel();
    limited("c246_one", &backend, &script, &channel).await;
    backend.set_delay(Duration::from_secs(3600));
    let first = held(&channel, &backend).await;
    let _second = held(&channel, &backend).await;
    // when another one is made, then it is dropped and reaches no backend
    let status = call_once(&channel).await.unwrap_err();
    assert_dropped(&status, "c246_one");
    assert_eq!(backend.calls(), 2);
    // when one of the two is cancelled, then there is room again
    first.abort();
    let _ = first.await;
    backend.set_delay(Duration::ZERO);
    call_once(&channel).await.unwrap();
}

#[tokio::test]
async fn c246_channels_share_the_count_by_cluster() {
    // given two channels with pools of their own to a cluster of one name, and one to a cluster of another name
    let [backend] = backends().await;
    let (script_a, a) = channel();
    let (script_b, b) = channel();
    let (script_c, c) = channel();
    limited("c246_shared", &backend, &script_a, &a).await;
    limited("c246_shared", &backend, &script_b, &b).await;
    limited("c246_other", &backend, &script_c, &c).await;
    backend.set_delay(Duration::from_secs(3600));
    // when each of the two has a request in progress
    let _one = held(&a, &backend).await;
    let _two = held(&b, &backend).await;
    // then the limit is reached for both, and not for the other cluster
    assert_dropped(&call_once(&a).await.unwrap_err(), "c246_shared");
    assert_dropped(&call_once(&b).await.unwrap_err(), "c246_shared");
    backend.set_delay(Duration::ZERO);
    call_once(&c).await.unwrap();
}

#[tokio::test]
async fn c246_finished_requests_do_not_count() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    limited("c246_many", &backend, &script, &channel).await;
    for _ in 0..10 {
        call_once(&channel).await.unwrap();
    }
    backend.set_status(5);
    for _ in 0..10 {
        assert_eq!(
            call_once(&channel).await.unwrap_err().code(),
            Code::NotFound
        );
    }
}
