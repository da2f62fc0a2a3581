//! What the scenarios share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use oxds_channel::testing::{Call, EchoBackend, Script, call};
use oxds_channel::{Pool, XdsChannel};
use tonic::Status;

/// Long enough for a loaded machine; nothing waits so long when all is well.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A channel to `xds:///svc` with a pool of its own, which reports its picks.
pub(crate) fn channel() -> (Script, XdsChannel) {
    let builder = XdsChannel::builder("xds:///svc")
        .pool(Pool::new())
        .report_picks(true);
    Script::channel(builder).unwrap()
}

pub(crate) async fn backends<const N: usize>() -> [EchoBackend; N] {
    let mut backends = Vec::new();
    for _ in 0..N {
        backends.push(EchoBackend::start().await.unwrap());
    }
    backends.try_into().unwrap()
}

/// A call that is expected to be answered soon, with the address that answered.
pub(crate) async fn call_once(channel: &XdsChannel) -> Result<SocketAddr, Status> {
    call_path(channel, "/echo.Echo/Call").await
}

pub(crate) async fn call_path(channel: &XdsChannel, path: &str) -> Result<SocketAddr, Status> {
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
pub(crate) async fn spread(channel: &XdsChannel, n: usize) -> HashMap<SocketAddr, usize> {
    let mut counts = HashMap::new();
    for _ in 0..n {
        *counts.entry(call_once(channel).await.unwrap()).or_default() += 1;
    }
    counts
}

/// Waits for a condition that nothing announces.
pub(crate) async fn eventually(what: impl Fn() -> bool) {
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
pub(crate) async fn ready(channel: &XdsChannel, endpoints: usize) {
    use oxds_channel::Connectivity::Ready;
    eventually(|| {
        let status = channel.status();
        let all = status
            .clusters
            .iter()
            .flat_map(|cluster| &cluster.endpoints);
        let ready = all
            .filter(|endpoint| endpoint.connectivity == Ready)
            .count();
        ready == endpoints
    })
    .await;
    // The status reads the connections; the picker follows them at once, on the channel's task.
    tokio::task::yield_now().await;
}
