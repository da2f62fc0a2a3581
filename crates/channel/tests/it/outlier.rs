//! Tests of outlier detection (gRFC A50).

use std::time::Duration;

use oxds_channel::testing::{EchoBackend, cluster, config};
use oxds_channel::{EjectionReason, XdsChannel};
use tonic::Code;

use crate::support::{backends, call_once, channel, detection, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const LONG: Duration = Duration::from_secs(3600);

/// Returns whether an endpoint is ejected, as the status shows it.
fn is_ejected(channel: &XdsChannel, backend: &EchoBackend) -> bool {
    let status = channel.status();
    let endpoints = status
        .clusters
        .iter()
        .flat_map(|cluster| &cluster.endpoints);
    let mut found = endpoints.filter(|one| one.endpoint.address == backend.address());
    let ejected = found.next().and_then(|endpoint| endpoint.ejected);
    ejected.is_some_and(|ejected| ejected.reason == EjectionReason::FailurePercentage)
}

/// Calls until the endpoint is ejected, or has returned.
async fn call_until(channel: &XdsChannel, backend: &EchoBackend, ejected: bool) {
    let calls = async {
        while is_ejected(channel, backend) != ejected {
            let _ = call_once(channel).await;
        }
    };
    let in_time = tokio::time::timeout(crate::support::SOON, calls).await;
    in_time.expect("the ejection changes in time");
}

#[tokio::test]
async fn c252_failing_endpoint_is_ejected_and_gets_no_traffic() {
    // given three endpoints, one of which fails every call
    let [good, also_good, bad] = backends().await;
    let (script, channel) = channel();
    let addresses = [good.address(), also_good.address(), bad.address()];
    let spec = cluster("one", &[&[("here", 1, &addresses)]], 0);
    script.set(config(ALL, vec![spec.outlier(detection(LONG))]));
    ready(&channel, 3).await;
    bad.set_status(13);
    // when it is ejected
    call_until(&channel, &bad, true).await;
    // then all calls go to the others
    let counts = spread(&channel, 20).await;
    assert!(!counts.contains_key(&bad.address()), "{counts:?}");
}

#[tokio::test]
async fn c252_ejected_endpoint_returns_after_its_time() {
    let [good, bad] = backends().await;
    let (script, channel) = channel();
    let addresses = [good.address(), bad.address()];
    let spec = cluster("one", &[&[("here", 1, &addresses)]], 0);
    let detection = detection(Duration::from_millis(50));
    script.set(config(ALL, vec![spec.outlier(detection)]));
    ready(&channel, 2).await;
    bad.set_status(13);
    call_until(&channel, &bad, true).await;
    bad.set_status(0);
    call_until(&channel, &bad, false).await;
    let counts = spread(&channel, 20).await;
    assert!(counts.contains_key(&bad.address()), "{counts:?}");
}

#[tokio::test]
async fn c252_cluster_of_ejected_endpoints_fails_with_the_reason() {
    let [bad] = backends().await;
    let (script, channel) = channel();
    let spec = cluster("one", &[&[("here", 1, &[bad.address()])]], 0);
    script.set(config(ALL, vec![spec.outlier(detection(LONG))]));
    ready(&channel, 1).await;
    bad.set_status(13);
    call_until(&channel, &bad, true).await;
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().contains("ejected by outlier detection"),
        "{status}"
    );
}

#[tokio::test]
async fn c252_detection_that_is_turned_off_ends_ejections() {
    let [good, bad] = backends().await;
    let (script, channel) = channel();
    let addresses = [good.address(), bad.address()];
    let spec = || cluster("one", &[&[("here", 1, &addresses)]], 0);
    script.set(config(ALL, vec![spec().outlier(detection(LONG))]));
    ready(&channel, 2).await;
    bad.set_status(13);
    call_until(&channel, &bad, true).await;
    bad.set_status(0);
    // when the cluster has no outlier detection any more
    script.set(config(ALL, vec![spec()]));
    // then the endpoint gets traffic again
    call_until(&channel, &bad, false).await;
    let counts = spread(&channel, 20).await;
    assert!(counts.contains_key(&bad.address()), "{counts:?}");
}
