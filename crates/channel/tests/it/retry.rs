//! Tests of retries by policy (gRFC A6, A44).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use oxds_channel::testing::{
    Call, ClusterSpec, EchoBackend, Resources, Script, call, cluster, config,
};
use oxds_channel::{Builder, Dropped, PreviousAttempts, XdsChannel};
use oxds_core::lb::RetryPolicy;
use tonic::{Code, Status};
use tower_service::Service;

use crate::support::{backends, builder, call_once, eventually, ready, retry_policy};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const UNAVAILABLE: u32 = 14;
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

fn policy(max_attempts: u32, base: Duration) -> Arc<RetryPolicy> {
    retry_policy(max_attempts, base, base * 10)
}

fn quick(max_attempts: u32) -> Arc<RetryPolicy> {
    policy(max_attempts, Duration::from_millis(1))
}

fn to(backend: &EchoBackend, dropped: u32) -> ClusterSpec {
    cluster("one", &[&[("here", 1, &[backend.address()])]], dropped)
}

fn retrying(spec: ClusterSpec, policy: &Arc<RetryPolicy>) -> Resources {
    config(ALL, vec![spec]).map_routes(|forward| forward.retry = Some(Arc::clone(policy)))
}

/// Returns a channel to the backend with this policy.
async fn channel_with(
    builder: Builder,
    backend: &EchoBackend,
    policy: &Arc<RetryPolicy>,
) -> (Script, XdsChannel) {
    let (script, channel) = Script::channel(builder).unwrap();
    script.set(retrying(to(backend, 0), policy));
    ready(&channel, 1).await;
    (script, channel)
}

fn pushback(value: &'static str) -> HeaderMap {
    let value = HeaderValue::from_static(value);
    HeaderMap::from_iter([("grpc-retry-pushback-ms".parse().unwrap(), value)])
}

#[tokio::test]
async fn c234_failed_attempt_is_repeated_up_to_the_maximum() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &quick(3)).await;
    // given a backend that fails twice, then the third attempt succeeds
    backend.fail_next(2, UNAVAILABLE, HeaderMap::new());
    call_once(&channel).await.unwrap();
    assert_eq!(backend.calls(), 3);
    // given one that fails three times, then its failure is passed on
    backend.fail_next(3, UNAVAILABLE, HeaderMap::new());
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(backend.calls(), 6);
}

#[tokio::test]
async fn c234_backend_and_caller_see_the_number_of_attempts() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &quick(3)).await;
    backend.fail_next(2, UNAVAILABLE, HeaderMap::new());
    let headers = HeaderMap::from_iter([("x-keep".parse().unwrap(), HeaderValue::from_static(""))]);
    let mut request = Request::post("/a.B/C").body(body(&[])).unwrap();
    *request.headers_mut() = headers;
    let response = channel.clone().call(request).await.unwrap();
    assert_eq!(backend.request_headers()["grpc-previous-rpc-attempts"], "2");
    let attempts = response.extensions().get::<PreviousAttempts>();
    assert_eq!(attempts, Some(&PreviousAttempts(2)));
    // The first attempt has no such header.
    let mut request = Request::post("/a.B/C").body(body(&[])).unwrap();
    request
        .headers_mut()
        .insert("x-keep", HeaderValue::from_static(""));
    channel.clone().call(request).await.unwrap();
    assert!(
        !backend
            .request_headers()
            .contains_key("grpc-previous-rpc-attempts")
    );
}

#[tokio::test]
async fn c234_failure_in_the_channel_has_the_number_of_attempts() {
    // given a backend whose connections break in every call
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &quick(3)).await;
    backend.kill();
    eventually(|| channel.status().clusters[0].error.is_some()).await;
    let request = Request::post("/a.B/C").body(body(&[])).unwrap();
    let response = channel.clone().call(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "14");
    let attempts = response.extensions().get::<PreviousAttempts>();
    assert_eq!(attempts, Some(&PreviousAttempts(2)));
}

#[tokio::test]
async fn c234_code_outside_the_policy_is_passed_on() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &quick(5)).await;
    backend.fail_next(1, 5, HeaderMap::new());
    assert_eq!(
        call_once(&channel).await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(backend.calls(), 1);
}

#[tokio::test]
async fn c234_retries_can_be_turned_off() {
    let [backend] = backends().await;
    let off = builder().retries(false);
    let (_script, channel) = channel_with(off, &backend, &quick(5)).await;
    backend.fail_next(1, UNAVAILABLE, HeaderMap::new());
    call_once(&channel).await.unwrap_err();
    assert_eq!(backend.calls(), 1);
}

#[tokio::test]
async fn c234_pushback_of_zero_skips_the_back_off() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &policy(2, LONG)).await;
    backend.fail_next(1, UNAVAILABLE, pushback("0"));
    call_once(&channel).await.unwrap();
    assert_eq!(backend.calls(), 2);
}

#[tokio::test]
async fn c234_negative_pushback_ends_the_retries() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &quick(5)).await;
    backend.fail_next(1, UNAVAILABLE, pushback("-1"));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(backend.calls(), 1);
}

#[tokio::test]
async fn c234_deadline_covers_the_back_off() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &policy(2, LONG)).await;
    backend.fail_next(1, UNAVAILABLE, HeaderMap::new());
    let short = Call {
        timeout: Some(Duration::from_millis(80)),
        ..Call::default()
    };
    let status = call(&channel, short).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status.message().contains("waiting to retry after"),
        "{status}"
    );
}

#[tokio::test]
async fn c234_broken_connection_is_retried_elsewhere() {
    // given two endpoints, both connected, and calls that hang
    let [first, second] = backends().await;
    let (script, channel) = Script::channel(builder()).unwrap();
    let addresses = [first.address(), second.address()];
    let spec = cluster("one", &[&[("here", 1, &addresses)]], 0);
    script.set(retrying(spec, &quick(5)));
    ready(&channel, 2).await;
    first.set_delay(LONG);
    second.set_delay(LONG);
    let held = channel.clone();
    let held = tokio::spawn(async move { call_once(&held).await });
    eventually(|| first.calls() + second.calls() == 1).await;
    let (busy, idle) = match first.calls() {
        1 => (&first, &second),
        _ => (&second, &first),
    };
    // when the backend of the call dies, then the other one gets it
    idle.set_delay(Duration::ZERO);
    busy.kill();
    assert_eq!(held.await.unwrap().unwrap(), idle.address());
}

#[tokio::test]
async fn c245_dropped_rpc_is_not_retried() {
    let [backend] = backends().await;
    let (script, channel) = Script::channel(builder()).unwrap();
    script.set(retrying(to(&backend, 1_000_000), &policy(5, LONG)));
    ready(&channel, 1).await;
    // A retry would wait for an hour.
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.message(), "cluster one: dropped as overload");
    let request = Request::post("/a.B/C").body(body(&[])).unwrap();
    let response = channel.clone().call(request).await.unwrap();
    let dropped = response.extensions().get::<Dropped>().unwrap();
    assert_eq!(&*dropped.cluster, "one");
    assert_eq!(dropped.category.as_deref(), Some("overload"));
}

#[tokio::test]
async fn c234_unreachable_endpoint_is_retried_until_it_is_back() {
    // given a cluster that has failed, and a policy that waits a second
    let [backend] = backends().await;
    backend.kill();
    let (script, channel) = Script::channel(builder()).unwrap();
    script.set(retrying(
        to(&backend, 0),
        &policy(5, Duration::from_secs(1)),
    ));
    let is_failed = || {
        channel
            .status()
            .clusters
            .first()
            .is_some_and(|one| one.error.is_some())
    };
    eventually(is_failed).await;
    // when the backend returns during the back-off, then the RPC succeeds
    let waiting = channel.clone();
    let waiting = tokio::spawn(async move { call_once(&waiting).await });
    backend.restart().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), backend.address());
}

/// A streaming body of these frames.
fn body(frames: &[&'static str]) -> tonic::body::Body {
    let frames: Vec<_> = frames
        .iter()
        .map(|frame| Bytes::from_static(frame.as_bytes()))
        .collect();
    let frames = frames
        .into_iter()
        .map(|data| Ok::<_, Status>(Frame::data(data)));
    tonic::body::Body::new(StreamBody::new(tokio_stream::iter(frames)))
}

async fn echo(channel: &XdsChannel, frames: &[&'static str]) -> Result<Bytes, Status> {
    let request = Request::post("/a.B/C").body(body(frames)).unwrap();
    let response = channel.clone().call(request).await.unwrap();
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Err(status);
    }
    Ok(response.into_body().collect().await?.to_bytes())
}

#[tokio::test]
async fn c234_streaming_request_is_sent_again_from_the_start() {
    let [backend] = backends().await;
    let (_script, channel) = channel_with(builder(), &backend, &quick(3)).await;
    backend.fail_next(2, UNAVAILABLE, HeaderMap::new());
    assert_eq!(
        echo(&channel, &["one", "two", "three"]).await.unwrap(),
        "onetwothree"
    );
    assert_eq!(backend.calls(), 3);
}

#[tokio::test]
async fn c234_request_above_the_buffer_limit_is_not_retried() {
    for limits in [(4, 100), (100, 4)] {
        let [backend] = backends().await;
        let small = builder().retry_buffer(limits.0, limits.1);
        let (_script, channel) = channel_with(small, &backend, &quick(3)).await;
        // A unary message, and a stream of messages, above the limit.
        backend.fail_next(1, UNAVAILABLE, HeaderMap::new());
        call_once(&channel).await.unwrap_err();
        assert_eq!(backend.calls(), 1);
        // Without a failure it is sent in full.
        assert_eq!(
            echo(&channel, &["one", "two", "three"]).await.unwrap(),
            "onetwothree"
        );
    }
}
