//! Shared by the client scenarios: a client of a scripted control plane, and updates with a deadline.

use std::sync::Arc;
use std::time::Duration;

use oxds_client::{Bootstrap, ClientPool, Update, Watch, WatchError, WatchErrorReason, XdsClient};
use oxds_core::resource::{Cluster, Typed};
use oxds_testkit::{AdsStream, ControlPlane, SOON};
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, DiscoveryRequest};
use tokio::time::timeout;

/// The first step of the backoff, minus its jitter and a margin for two clocks (C-89).
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(790);

pub(crate) fn pool(server: &ControlPlane) -> ClientPool {
    pool_of(&server.address().to_string())
}

pub(crate) fn pool_of(server_uri: &str) -> ClientPool {
    let bootstrap = Bootstrap::builder(server_uri).node_id("scripted");
    ClientPool::new(bootstrap.build().unwrap())
}

pub(crate) async fn start() -> (ControlPlane, XdsClient) {
    let server = ControlPlane::start().await.unwrap();
    let client = pool(&server).client("test");
    (server, client)
}

/// Returns a stream on which one cluster has been requested, sent and acknowledged.
pub(crate) async fn acknowledged(
    server: &ControlPlane,
    client: &XdsClient,
    cluster: Any,
) -> (AdsStream, Watch<Cluster>) {
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster]);
    stream.request().await.unwrap();
    value(&mut watch).await;
    (stream, watch)
}

pub(crate) async fn next<T: Typed>(watch: &mut Watch<T>) -> Update<Arc<T>> {
    let update = timeout(SOON, watch.next())
        .await
        .expect("an update before the deadline");
    update.expect("the client lives")
}

/// Returns the next update, which must be a value.
pub(crate) async fn value<T: Typed + std::fmt::Debug>(watch: &mut Watch<T>) -> Arc<T> {
    match next(watch).await {
        Update::Changed(Ok(value)) => value,
        other => panic!("{other:?}"),
    }
}

/// Returns the next update, which must be an error that replaces the value.
pub(crate) async fn error<T: Typed + std::fmt::Debug>(
    watch: &mut Watch<T>,
    reason: WatchErrorReason,
) -> WatchError {
    match next(watch).await {
        Update::Changed(Err(error)) if error.reason == reason => error,
        other => panic!("{other:?}"),
    }
}

/// Returns the next update, which must be an ambient error.
pub(crate) async fn ambient<T: Typed + std::fmt::Debug>(
    watch: &mut Watch<T>,
    reason: WatchErrorReason,
) -> WatchError {
    match next(watch).await {
        Update::Ambient(Some(error)) if error.reason == reason => error,
        other => panic!("{other:?}"),
    }
}

/// The fields of a request that the protocol acts on: names, version, nonce.
pub(crate) fn essence(request: &DiscoveryRequest) -> (Vec<&str>, &str, &str) {
    let names = request.resource_names.iter().map(String::as_str).collect();
    (names, &request.version_info, &request.response_nonce)
}
