//! Shared helpers of the tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Response};
use oxds_channel::testing::Script;
pub(crate) use oxds_channel::testing::expect::{
    SOON, backends, call_once, call_path, eventually, ready, spread,
};
use oxds_channel::{Builder, Pool, XdsChannel};
use oxds_core::lb::{FailurePercentage, OutlierConfig, RetryPolicy, StatusCodes};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Returns a channel to `xds:///svc` with its own pool, which reports picks.
pub(crate) fn channel() -> (Script, XdsChannel) {
    Script::channel(builder()).unwrap()
}

/// Returns the builder of such a channel.
pub(crate) fn builder() -> Builder {
    XdsChannel::builder("xds:///svc")
        .pool(Pool::new())
        .report_picks(true)
}

/// Returns a policy that retries `UNAVAILABLE`, with these limits of the back-off.
pub(crate) fn retry_policy(max_attempts: u32, base: Duration, max: Duration) -> Arc<RetryPolicy> {
    let mut codes = StatusCodes::default();
    codes.insert(14);
    Arc::new(RetryPolicy {
        codes,
        max_attempts,
        base,
        max,
    })
}

/// Returns a policy that retries `UNAVAILABLE` almost at once.
pub(crate) fn quick_retries(max_attempts: u32) -> Arc<RetryPolicy> {
    let short = Duration::from_millis(1);
    retry_policy(max_attempts, short, short)
}

/// Returns a detection that ejects an endpoint for this time if half of its calls fail.
pub(crate) fn detection(ejection: Duration) -> OutlierConfig {
    OutlierConfig {
        interval: Duration::from_millis(20),
        base_ejection_time: ejection,
        max_ejection_time: ejection,
        max_ejection_percent: 100,
        success_rate: None,
        failure_percentage: Some(FailurePercentage {
            threshold: 50,
            enforcement_percentage: 100,
            minimum_hosts: 1,
            request_volume: 1,
        }),
    }
}

/// A backend whose connections are not answered, so that they stay connecting.
pub(crate) struct SilentBackend(TcpListener);

impl SilentBackend {
    pub(crate) async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Answers the first connection, and its calls with this status, until the task is aborted or the connection ends.
    pub(crate) fn answer(self, code: u32) -> JoinHandle<()> {
        tokio::spawn(async move {
            let (socket, _) = self.0.accept().await.unwrap();
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let mut response = Response::new(());
                let headers = response.headers_mut();
                let grpc = HeaderValue::from_static("application/grpc");
                headers.insert("content-type", grpc);
                headers.insert("grpc-status", code.into());
                respond.send_response(response, true).unwrap();
            }
        })
    }
}

/// Lets spawned tasks run until they wait for an event.
pub(crate) async fn until_polled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
