//! What tests of a channel expect of it. A test fails by a panic, so these panic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by a panic"
)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use tonic::Status;

use super::{Call, EchoBackend, call};
use crate::{Connectivity, XdsChannel};

/// How long a test waits for what must come: long, because machines that run tests are busy.
pub const SOON: Duration = Duration::from_secs(20);

/// So many backends.
///
/// # Panics
/// When a port cannot be bound.
pub async fn backends<const N: usize>() -> [EchoBackend; N] {
    let mut backends = Vec::new();
    for _ in 0..N {
        backends.push(EchoBackend::start().await.unwrap());
    }
    backends.try_into().unwrap()
}

/// A call that is expected to be answered [`SOON`], with the address that answered.
///
/// # Errors
/// Any status but OK.
pub async fn call_once(channel: &XdsChannel) -> Result<SocketAddr, Status> {
    call_path(channel, "/echo.Echo/Call").await
}

/// The same for another method.
///
/// # Errors
/// Any status but OK.
///
/// # Panics
/// When the answer is not the question, or the channel does not report picks.
pub async fn call_path(channel: &XdsChannel, path: &str) -> Result<SocketAddr, Status> {
    let what = Call {
        path,
        timeout: Some(SOON),
        ..Call::default()
    };
    let (message, picked) = call(channel, what).await?;
    assert_eq!(message, "hello");
    Ok(picked.unwrap().address)
}

/// How often each backend answered `n` calls.
///
/// # Panics
/// When a call fails.
pub async fn spread(channel: &XdsChannel, n: usize) -> HashMap<SocketAddr, usize> {
    let mut counts = HashMap::new();
    for _ in 0..n {
        *counts.entry(call_once(channel).await.unwrap()).or_default() += 1;
    }
    counts
}

/// Waits for a condition that nothing announces.
///
/// # Panics
/// When it does not hold [`SOON`].
pub async fn eventually(what: impl Fn() -> bool) {
    let wait = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait)
        .await
        .expect("the condition holds in the end");
}

/// Waits until the channel has so many ready endpoints.
///
/// # Panics
/// When that does not come [`SOON`].
pub async fn ready(channel: &XdsChannel, endpoints: usize) {
    eventually(|| {
        let status = channel.status();
        let all = status
            .clusters
            .iter()
            .flat_map(|cluster| &cluster.endpoints);
        let ready = all.filter(|endpoint| endpoint.connectivity == Connectivity::Ready);
        ready.count() == endpoints
    })
    .await;
    // The status reads the connections; the picker follows them at once, on the channel's task.
    tokio::task::yield_now().await;
}
