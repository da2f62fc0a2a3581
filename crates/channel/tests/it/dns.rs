//! Tests of `LOGICAL_DNS` clusters (gRFC A37).

use oxds_channel::testing::{cluster, config};
use oxds_core::lb::Connectivity;
use tonic::Code;

use crate::support::{backends, call_once, channel, eventually, ready};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

#[tokio::test]
async fn c254_rpc_goes_to_the_host_of_a_dns_cluster() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let spec = cluster("one", &[], 0).logical_dns("127.0.0.1", backend.address().port());
    script.set(config(ALL, vec![spec]));
    ready(&channel, 1).await;
    assert_eq!(call_once(&channel).await.unwrap(), backend.address());
}

#[tokio::test]
async fn c220_failed_lookup_is_in_the_status_of_the_rpc() {
    let (script, channel) = channel();
    let spec = cluster("one", &[], 0).logical_dns("nowhere", 80);
    script.set(config(ALL, vec![spec]));
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let text = "DNS lookup of nowhere:80: not an IP address";
    assert!(status.message().contains(text), "{status}");
}

/// Given clusters of a host and of an assignment, when their backends end, then the channel asks for another lookup of
/// the host, and for nothing else.
#[tokio::test]
async fn c254_c255_ended_connection_asks_for_a_lookup() {
    for (is_dns, asks) in [(true, true), (false, false)] {
        let [backend] = backends().await;
        let address = backend.address();
        let (script, channel) = channel();
        let spec = if is_dns {
            cluster("one", &[], 0).logical_dns("127.0.0.1", address.port())
        } else {
            cluster("one", &[&[("here", 1, &[address])]], 0)
        };
        script.set(config(ALL, vec![spec]));
        ready(&channel, 1).await;
        assert_eq!(script.requested_lookups(), 0);
        drop(backend);
        // when a connection was refused
        eventually(|| channel.status().clusters[0].connectivity == Connectivity::TransientFailure)
            .await;
        // then
        eventually(|| (script.requested_lookups() > 0) == asks).await;
    }
}
