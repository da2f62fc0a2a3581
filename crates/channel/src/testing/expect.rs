//! Assertions for tests of a channel. They panic, because tests fail by panics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panics"
)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use tonic::Status;

use super::{Call, EchoBackend, call};
use crate::{Connectivity, XdsChannel};

/// Time that a test waits for an expected event. Long, because machines that run tests are busy.
pub const SOON: Duration = Duration::from_secs(20);

/// Starts `N` echo backends.
///
/// # Panics
/// If a port cannot be bound.
pub async fn backends<const N: usize>() -> [EchoBackend; N] {
    let mut backends = Vec::new();
    for _ in 0..N {
        backends.push(EchoBackend::start().await.unwrap());
    }
    backends.try_into().unwrap()
}

/// Makes a call with a deadline of [`SOON`], and returns the address of the backend.
///
/// # Errors
/// Every status except OK.
///
/// # Panics
/// As [`call_path`].
pub async fn call_once(channel: &XdsChannel) -> Result<SocketAddr, Status> {
    call_path(channel, "/echo.Echo/Call").await
}

/// Makes a call of another method with a deadline of [`SOON`], and returns the address of the backend.
///
/// # Errors
/// Every status except OK.
///
/// # Panics
/// If the response differs from the request, or the channel does not report picks.
pub async fn call_path(channel: &XdsChannel, path: &str) -> Result<SocketAddr, Status> {
    let request = Call {
        path,
        timeout: Some(SOON),
        ..Call::default()
    };
    let (message, picked) = call(channel, request).await?;
    assert_eq!(message, "hello");
    Ok(picked.unwrap().address)
}

/// Makes `n` calls one after the other, and returns the number of responses per backend.
///
/// # Panics
/// If a call fails.
pub async fn spread(channel: &XdsChannel, n: usize) -> HashMap<SocketAddr, usize> {
    let mut counts = HashMap::new();
    for _ in 0..n {
        *counts.entry(call_once(channel).await.unwrap()).or_default() += 1;
    }
    counts
}

/// Polls a condition every 2 ms until it is true.
///
/// # Panics
/// If the condition is not true within [`SOON`].
pub async fn eventually(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait)
        .await
        .expect("the condition becomes true in time");
}

/// Waits until exactly this number of the channel's endpoints is ready.
///
/// # Panics
/// If that does not happen within [`SOON`].
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
    // The status reads the subchannels; the channel's task needs a turn to update the picker.
    tokio::task::yield_now().await;
}
