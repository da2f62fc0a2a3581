//! Tests of priorities over real connections (gRFC A56).

use std::net::SocketAddr;
use std::time::Duration;

use oxds_channel::testing::{Call, Resources, call, cluster, config};
use oxds_channel::{Connectivity, XdsChannel};
use tonic::Code;

use crate::support::{
    SilentBackend, backends, call_once, channel, eventually, spread, until_polled,
};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
/// A little more than the failover timer.
const FAILOVER: Duration = Duration::from_millis(10_001);

/// Priorities of one locality each, with its name and its endpoint.
fn priorities(levels: &[(&str, SocketAddr)]) -> Resources {
    let endpoints: Vec<_> = levels.iter().map(|(_, address)| [*address]).collect();
    let levels: Vec<_> = levels
        .iter()
        .zip(&endpoints)
        .map(|((name, _), endpoints)| [(*name, 1, &endpoints[..])])
        .collect();
    let levels: Vec<_> = levels.iter().map(<[_; 1]>::as_slice).collect();
    config(ALL, vec![cluster("one", &levels, 0)])
}

/// Returns the active priority and its state.
fn active(channel: &XdsChannel) -> Option<(usize, Connectivity)> {
    let status = channel.status();
    let cluster = status.clusters.first()?;
    Some((cluster.priority?, cluster.connectivity))
}

async fn becomes(channel: &XdsChannel, priority: usize, state: Connectivity) {
    eventually(|| active(channel) == Some((priority, state))).await;
}

/// Moves the clock of the channel.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    until_polled().await;
}

/// Starts a call without a deadline.
fn waiting_call(
    channel: &XdsChannel,
) -> tokio::task::JoinHandle<Result<SocketAddr, tonic::Status>> {
    let channel = channel.clone();
    tokio::spawn(async move {
        let (_, picked) = call(&channel, Call::default()).await?;
        Ok(picked.unwrap().address)
    })
}

#[tokio::test]
async fn c240_silent_priority_is_given_up_after_ten_seconds() {
    // given three priorities, of which the first two do not answer
    let (first, second) = (SilentBackend::start().await, SilentBackend::start().await);
    let [third] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[
        ("x", first.address()),
        ("y", second.address()),
        ("z", third.address()),
    ]));
    becomes(&channel, 0, Connectivity::Connecting).await;
    let waiting = waiting_call(&channel);
    until_polled().await;
    // when the failover timer is over, then the next priority has as much time
    pass(FAILOVER).await;
    becomes(&channel, 1, Connectivity::Connecting).await;
    assert_eq!(third.accepted(), 0);
    assert!(!waiting.is_finished());
    // and the last one gets the call that waits
    pass(FAILOVER).await;
    assert_eq!(waiting.await.unwrap().unwrap(), third.address());
    becomes(&channel, 2, Connectivity::Ready).await;
}

#[tokio::test]
async fn c242_priority_that_answers_late_takes_over_at_once() {
    let silent = SilentBackend::start().await;
    let [second] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[
        ("x", silent.address()),
        ("y", second.address()),
    ]));
    becomes(&channel, 0, Connectivity::Connecting).await;
    pass(FAILOVER).await;
    becomes(&channel, 1, Connectivity::Ready).await;
    assert_eq!(spread(&channel, 5).await[&second.address()], 5);
    // when the first answers after its timer
    let serving = silent.answer(5);
    becomes(&channel, 0, Connectivity::Ready).await;
    // then it gets the calls, and the second is released
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    eventually(|| second.connections() == 0).await;
    serving.abort();
}

#[tokio::test]
async fn c241_second_pass_waits_for_the_one_that_still_connects() {
    // given a silent priority and a dead one
    let silent = SilentBackend::start().await;
    let [dead] = backends().await;
    dead.kill();
    let (script, channel) = channel();
    script.set(priorities(&[
        ("x", silent.address()),
        ("y", dead.address()),
    ]));
    becomes(&channel, 0, Connectivity::Connecting).await;
    // when the timer of the first is over and the second fails
    pass(FAILOVER).await;
    let second_failed = || {
        let endpoints = channel.status().clusters.remove(0).endpoints;
        endpoints[1].connectivity == Connectivity::TransientFailure
    };
    eventually(second_failed).await;
    // then calls wait for the first, which may still succeed
    becomes(&channel, 0, Connectivity::Connecting).await;
    let waiting = waiting_call(&channel);
    until_polled().await;
    assert!(!waiting.is_finished());
    let serving = silent.answer(5);
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status}");
    serving.abort();
}

#[tokio::test]
async fn c241_last_priority_reports_when_all_have_failed() {
    let [first, last] = backends().await;
    first.kill();
    last.kill();
    let (script, channel) = channel();
    script.set(priorities(&[("x", first.address()), ("y", last.address())]));
    becomes(&channel, 1, Connectivity::TransientFailure).await;
    let status = call_once(&channel).await.unwrap_err();
    let text = format!("last error {}: ", last.address());
    assert!(status.message().contains(&text), "{status}");
    // and whichever recovers first serves
    last.restart().await.unwrap();
    becomes(&channel, 1, Connectivity::Ready).await;
    assert_eq!(call_once(&channel).await.unwrap(), last.address());
    first.restart().await.unwrap();
    becomes(&channel, 0, Connectivity::Ready).await;
    assert_eq!(call_once(&channel).await.unwrap(), first.address());
}

#[tokio::test]
async fn c243_renumbered_priorities_keep_their_connections() {
    // given traffic on the second priority
    let [a, b, c] = backends().await;
    a.kill();
    let (script, channel) = channel();
    script.set(priorities(&[("x", a.address()), ("y", b.address())]));
    becomes(&channel, 1, Connectivity::Ready).await;
    assert_eq!(call_once(&channel).await.unwrap(), b.address());
    // when it becomes the first
    script.set(priorities(&[("y", b.address()), ("x", a.address())]));
    becomes(&channel, 0, Connectivity::Ready).await;
    assert_eq!(spread(&channel, 5).await[&b.address()], 5);
    // when a new one comes before it, which does not answer
    let silent = SilentBackend::start().await;
    let levels = [
        ("z", silent.address()),
        ("y", b.address()),
        ("x", a.address()),
    ];
    script.set(priorities(&levels));
    becomes(&channel, 0, Connectivity::Connecting).await;
    pass(FAILOVER).await;
    becomes(&channel, 1, Connectivity::Ready).await;
    assert_eq!(spread(&channel, 5).await[&b.address()], 5);
    // when that one is replaced by one that answers
    let levels = [("w", c.address()), ("y", b.address()), ("x", a.address())];
    script.set(priorities(&levels));
    becomes(&channel, 0, Connectivity::Ready).await;
    assert_eq!(spread(&channel, 5).await[&c.address()], 5);
    // then each endpoint was connected once
    assert_eq!((b.accepted(), c.accepted()), (1, 1));
}

#[tokio::test]
async fn c243_priority_that_moves_down_keeps_its_state() {
    // given an active first priority
    let [a, b] = backends().await;
    let (script, channel) = channel();
    script.set(priorities(&[("x", a.address())]));
    becomes(&channel, 0, Connectivity::Ready).await;
    // when a dead one comes before it
    b.kill();
    script.set(priorities(&[("y", b.address()), ("x", a.address())]));
    becomes(&channel, 1, Connectivity::Ready).await;
    // then the old one serves without a new connection
    assert_eq!(spread(&channel, 5).await[&a.address()], 5);
    assert_eq!(a.accepted(), 1);
}
