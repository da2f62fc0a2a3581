//! Tests of wait-for-ready RPCs.

use oxds_channel::testing::{Script, broken, cluster, config};
use oxds_channel::{WaitForReady, XdsChannel};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status};

use crate::support::{SOON, backends, builder, call_once, eventually};
use crate::tonic_client::{EchoClient, Text};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// Returns a channel that waits for ready, or not, unless a call says otherwise.
fn channel(wait_for_ready: bool) -> (Script, XdsChannel) {
    Script::channel(builder().wait_for_ready(wait_for_ready)).unwrap()
}

async fn configured(channel: &XdsChannel, revision: u64) {
    eventually(|| channel.status().revision == revision).await;
}

/// Starts a call, and returns it when it waits.
async fn waiting_call(
    channel: &XdsChannel,
    wait_for_ready: Option<bool>,
) -> JoinHandle<Result<(), Status>> {
    let mut client = EchoClient::new(channel.clone());
    let mut request = Request::new(Text::default());
    request.set_timeout(SOON);
    if let Some(wait) = wait_for_ready {
        request.extensions_mut().insert(WaitForReady(wait));
    }
    let call = tokio::spawn(async move { client.unary(request).await.map(drop) });
    // A call that does not wait ends within its first polls, which other tasks do not interrupt.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    call
}

#[tokio::test]
async fn wait_for_ready_outlives_a_missing_configuration() {
    let [backend] = backends().await;
    // given a control plane without the channel's listener
    let (script, channel) = channel(true);
    script.fail("no such listener");
    configured(&channel, 1).await;
    let call = waiting_call(&channel, None).await;
    assert!(!call.is_finished());
    // when an invalid cluster comes, then a valid one
    script.set(config(ALL, vec![broken("one", "invalid")]));
    configured(&channel, 2).await;
    let other = waiting_call(&channel, None).await;
    assert!(!call.is_finished() && !other.is_finished());
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(ALL, vec![one]));
    // then both calls are sent
    call.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
}

#[tokio::test]
async fn wait_for_ready_outlives_unreachable_endpoints() {
    let [backend] = backends().await;
    backend.kill();
    let (script, channel) = channel(true);
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(ALL, vec![one]));
    eventually(|| {
        let clusters = channel.status().clusters;
        clusters.first().is_some_and(|one| one.error.is_some())
    })
    .await;
    let call = waiting_call(&channel, None).await;
    assert!(!call.is_finished());
    backend.restart().await.unwrap();
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn each_call_may_override_the_channel() {
    for default in [false, true] {
        let (script, channel) = channel(default);
        script.fail("no such listener");
        configured(&channel, 1).await;
        let fails = waiting_call(&channel, Some(false)).await;
        let status = fails.await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("no such listener"), "{status}");
        let waits = waiting_call(&channel, Some(true)).await;
        assert!(!waits.is_finished());
        waits.abort();
        let by_default = waiting_call(&channel, None).await;
        assert_eq!(by_default.is_finished(), !default);
        by_default.abort();
    }
}

#[tokio::test]
async fn deadline_of_a_waiting_call_names_the_last_error() {
    let (script, channel) = channel(true);
    script.fail("no such listener");
    configured(&channel, 1).await;
    let mut request = Request::new(Text::default());
    request.set_timeout(std::time::Duration::from_millis(30));
    let status = EchoClient::new(channel).unary(request).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.message().contains("no such listener"), "{status}");
}

#[tokio::test]
async fn c245_drops_and_missing_routes_fail_waiting_calls() {
    let [backend] = backends().await;
    let (script, channel) = channel(true);
    let one = |dropped| cluster("one", &[&[("here", 1, &[backend.address()])]], dropped);
    script.set(config(ALL, vec![one(1_000_000)]));
    let status = call_once(&channel).await.unwrap_err();
    assert!(status.message().contains("dropped as overload"), "{status}");
    script.set(config(&[("/other", &[(1, 0)])], vec![one(0)]));
    configured(&channel, 2).await;
    let status = call_once(&channel).await.unwrap_err();
    assert!(status.message().contains("no route"), "{status}");
}
