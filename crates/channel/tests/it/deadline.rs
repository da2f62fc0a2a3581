//! Tests of the deadline: it covers every wait, and the status names the wait.

use std::time::{Duration, Instant};

use oxds_channel::XdsChannel;
use oxds_channel::testing::{Call, EchoBackend, call, cluster, config, limited};
use tokio::net::TcpListener;
use tonic::{Code, Status};

use crate::support::{SOON, backends, channel, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const SHORT: Duration = Duration::from_millis(80);

async fn call_for(channel: &XdsChannel, timeout: Option<Duration>) -> Status {
    let began = Instant::now();
    let status = call(
        channel,
        Call {
            timeout,
            ..Call::default()
        },
    )
    .await
    .unwrap_err();
    assert!(
        began.elapsed() >= SHORT && began.elapsed() < SOON,
        "{:?}",
        began.elapsed()
    );
    status
}

#[track_caller]
fn assert_late(status: &Status, waiting: &str) {
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains(waiting), "{status}");
}

#[tokio::test]
async fn c233_deadline_covers_wait_for_configuration() {
    let (_script, channel) = channel();
    let status = call_for(&channel, Some(SHORT)).await;
    assert_late(&status, "waiting for the configuration");
}

#[tokio::test]
async fn c233_deadline_covers_connecting() {
    // given an endpoint that accepts connections but sends nothing
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let (script, channel) = channel();
    script.set(config(
        ALL,
        vec![cluster("mute", &[&[("here", 1, &[address])]], 0)],
    ));
    let status = call_for(&channel, Some(SHORT)).await;
    assert_late(&status, "connecting to the endpoints of cluster mute");
}

#[tokio::test]
async fn c233_deadline_covers_response_and_route_limit() {
    let [slow] = backends().await;
    let (script, channel) = channel();
    let one = || vec![cluster("one", &[&[("here", 1, &[slow.address()])]], 0)];
    script.set(config(ALL, one()));
    // The deadline is not to pass while the channel connects.
    spread(&channel, 1).await;
    slow.set_delay(SOON);
    let status = call_for(&channel, Some(SHORT)).await;
    assert_late(
        &status,
        &format!("waiting for the response of {}", slow.address()),
    );
    // when the route allows less than the application
    script.set(limited(ALL, one(), Some(SHORT)));
    crate::support::eventually(|| channel.status().revision == 2).await;
    assert_late(
        &call_for(&channel, Some(SOON)).await,
        "waiting for the response",
    );
    // or the application sets no deadline
    assert_late(&call_for(&channel, None).await, "waiting for the response");
    // and when the route allows more, the application's deadline applies
    script.set(limited(ALL, one(), Some(SOON)));
    crate::support::eventually(|| channel.status().revision == 3).await;
    assert_late(
        &call_for(&channel, Some(SHORT)).await,
        "waiting for the response",
    );
}

#[tokio::test]
async fn c233_deadline_covers_rest_of_response() {
    // given a response whose head arrives but whose end does not
    let backend = EchoBackend::start().await.unwrap();
    let (script, channel) = channel();
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(ALL, vec![one]));
    spread(&channel, 1).await;
    let mut client = crate::tonic_client::EchoClient::new(channel.clone());
    let mut request = tonic::Request::new(tokio_stream::pending());
    request.set_timeout(SHORT);
    let mut responses = client.stream(request).await.unwrap().into_inner();
    // when it is read
    let status = responses.message().await.unwrap_err();
    // then it ends at the deadline
    assert_late(&status, "waiting for the rest of the response");
}

#[tokio::test]
async fn call_whose_deadline_is_over_is_never_sent() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(ALL, vec![one]));
    spread(&channel, 1).await;
    // when the deadline is now
    for _ in 0..10 {
        let late = Call {
            timeout: Some(Duration::ZERO),
            ..Call::default()
        };
        let status = call(&channel, late).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    }
    // then only the calls before and after reach the backend
    spread(&channel, 1).await;
    assert_eq!(backend.calls(), 2);
}
