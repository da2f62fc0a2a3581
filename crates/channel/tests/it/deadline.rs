//! The deadline covers every wait, and says which one it was.

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
fn assert_late(status: &Status, while_: &str) {
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains(while_), "{status}");
}

#[tokio::test]
async fn c233_covers_the_wait_for_the_configuration() {
    let (_script, channel) = channel();
    let status = call_for(&channel, Some(SHORT)).await;
    assert_late(&status, "waiting for the configuration");
}

#[tokio::test]
async fn c233_covers_connecting() {
    // given an endpoint that accepts but never speaks
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
async fn c233_covers_the_answer_and_the_route_may_shorten_it() {
    let [slow] = backends().await;
    slow.set_delay(SOON);
    let (script, channel) = channel();
    let one = || vec![cluster("one", &[&[("here", 1, &[slow.address()])]], 0)];
    script.set(config(ALL, one()));
    let status = call_for(&channel, Some(SHORT)).await;
    assert_late(
        &status,
        &format!("waiting for the answer of {}", slow.address()),
    );
    // when the route allows less than the application
    script.set(limited(ALL, one(), Some(SHORT)));
    crate::support::eventually(|| channel.status().revision == 2).await;
    assert_late(
        &call_for(&channel, Some(SOON)).await,
        "waiting for the answer",
    );
    // or the application says nothing
    assert_late(&call_for(&channel, None).await, "waiting for the answer");
    // and when the route allows more, the application's holds
    script.set(limited(ALL, one(), Some(SOON)));
    crate::support::eventually(|| channel.status().revision == 3).await;
    assert_late(
        &call_for(&channel, Some(SHORT)).await,
        "waiting for the answer",
    );
}

#[tokio::test]
async fn c233_covers_the_rest_of_the_response() {
    // given an answer whose head comes but whose end does not
    let backend = EchoBackend::start().await.unwrap();
    let (script, channel) = channel();
    let one = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(ALL, vec![one]));
    spread(&channel, 1).await;
    let mut client = crate::tonic_client::EchoClient::new(channel.clone());
    let mut request = tonic::Request::new(tokio_stream::pending());
    request.set_timeout(SHORT);
    let mut answers = client.stream(request).await.unwrap().into_inner();
    // when it is read
    let status = answers.message().await.unwrap_err();
    // then it ends with the deadline
    assert_late(&status, "waiting for the rest of the response");
}
