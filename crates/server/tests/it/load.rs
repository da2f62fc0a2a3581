//! LRS, over a real socket.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{Locality, Node};
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_server::{LoadReports, Server};

use crate::client::{Stream, node};
use crate::pages::json;
use crate::{Running, cluster, removal, until, upsert};

const LRS: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

pub(crate) fn hello(features: &[&str]) -> LoadStatsRequest {
    LoadStatsRequest {
        node: Some(Node {
            client_features: features.iter().map(|feature| (*feature).into()).collect(),
            ..node().unwrap()
        }),
        cluster_stats: Vec::new(),
    }
}

pub(crate) fn report(issued: u64) -> LoadStatsRequest {
    LoadStatsRequest {
        node: None,
        cluster_stats: vec![ClusterStats {
            cluster_name: "a".into(),
            upstream_locality_stats: vec![UpstreamLocalityStats {
                locality: Some(Locality {
                    region: "eu".into(),
                    ..Locality::default()
                }),
                total_issued_requests: issued,
                total_successful_requests: issued,
                ..UpstreamLocalityStats::default()
            }],
            ..ClusterStats::default()
        }],
    }
}

/// Given clusters a, b; when a client that understands `send_all_clusters` says who it is; then it is told to report
/// everything every five seconds; when it reports; then the load is shown in the status.
#[tokio::test]
async fn s66_reported_loads_are_shown() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&["envoy.lrs.supports_send_all_clusters"]));
    let orders: LoadStatsResponse = stream.message().await;
    assert!(orders.send_all_clusters && orders.clusters.is_empty());
    assert_eq!(orders.load_reporting_interval.unwrap().seconds, 5);

    stream.send(&report(30));
    stream.send(&report(20));
    let load = until("the load", async || {
        let load = json(server.http).await["loads"][0].clone();
        (load["localities"][0]["requests"]["issued"] == 50).then_some(load)
    })
    .await;
    assert_eq!(
        (&load["node"], &load["cluster"]),
        (&"test-1".into(), &"a".into())
    );
    assert_eq!(load["localities"][0]["locality"][0], "eu");
    assert_eq!(load["localities"][0]["rate_10s"], 5.0);
}

/// Given a client that must be told names; when a cluster comes, when one goes, when the interval changes; then each
/// time it is told anew; when only the content of a cluster changes; then it is not.
#[tokio::test]
async fn s67_new_orders_follow_the_clusters_and_the_interval() {
    let reports = LoadReports::every(Duration::from_secs(1));
    let server = Running::start(Server::builder().load_reports(reports.clone())).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&[]));
    server.cache.apply(upsert(&["a"]));
    let orders: LoadStatsResponse = stream.message().await;
    assert_eq!(orders.clusters, ["a"]);

    server.cache.apply(upsert(&["b"]));
    let orders: LoadStatsResponse = stream.message().await;
    assert_eq!(orders.clusters, ["a", "b"]);
    let mut changed = upsert(&[]);
    changed.upserts.push(cluster("a", b"\x10\x03").into());
    server.cache.apply(changed);
    server.cache.apply(removal(&["b"]));
    let orders: LoadStatsResponse = stream.message().await;
    assert_eq!(orders.clusters, ["a"]);

    reports.set_interval(Duration::from_millis(2500));
    let orders: LoadStatsResponse = stream.message().await;
    let interval = orders.load_reporting_interval.unwrap();
    assert_eq!((interval.seconds, interval.nanos), (2, 500_000_000));
}

/// Given an open LRS stream; when the server shuts down; then the stream ends with UNAVAILABLE.
#[tokio::test]
async fn s79_shutdown_ends_load_reporting() {
    let mut server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&[]));
    let _: LoadStatsResponse = stream.message().await;
    server.stop();
    assert_eq!(stream.status().await.0, 14);
}
