//! LRS, over a real socket.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{Locality, Node};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterStats, EndpointLoadMetricStats, UpstreamLocalityStats,
};
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_server::{LoadReports, Server};

use crate::client::{Stream, node};
use crate::pages::json;
use crate::{Running, cluster, removal, until, upsert};

pub(crate) const LRS: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

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
    stream.send(&hello(&["something.else"]));
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

/// Given numbers that no client can mean; then sums stay numbers; given a cluster that is not served, then its load is
/// shown all the same; given names longer than any, then the stream is refused.
#[tokio::test]
async fn s66_nonsense_in_reports_harms_nobody() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&[]));
    let _: LoadStatsResponse = stream.message().await;
    stream.send(&report(7));
    for total in [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MAX,
    ] {
        let mut nonsense = report(u64::MAX);
        let stats = &mut nonsense.cluster_stats[0];
        stats.total_dropped_requests = u64::MAX;
        stats.load_report_interval = Some(oxds_types::discovery::Duration {
            seconds: i64::MIN,
            nanos: i32::MIN,
        });
        stats.upstream_locality_stats[0].load_metric_stats = vec![EndpointLoadMetricStats {
            metric_name: "m".into(),
            num_requests_finished_with_metric: u64::MAX,
            total_metric_value: total,
        }];
        stream.send(&nonsense);
    }
    let mut named = report(1);
    named.cluster_stats[0].cluster_name = "nobody has this one".into();
    stream.send(&named);
    let page = until("all reports", async || {
        let (_, page) = crate::pages::get(server.http, "/status.json").await;
        page.contains("nobody has this one").then_some(page)
    })
    .await;
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let load = &page["loads"][0];
    assert_eq!(load["localities"][0]["requests"]["issued"], u64::MAX);
    let metric = &load["localities"][0]["metrics"]["m"]["total"];
    assert!(metric.is_number(), "{load}");

    let long = || "x".repeat(5000);
    let (mut cluster, mut zone) = (report(1), report(1));
    cluster.cluster_stats[0].cluster_name = long();
    let stats = &mut zone.cluster_stats[0].upstream_locality_stats[0];
    stats.locality.as_mut().unwrap().zone = long();
    for refused in [cluster, zone] {
        let mut stream = Stream::open(server.grpc, LRS).await;
        stream.send(&hello(&[]));
        stream.send(&refused);
        let _: LoadStatsResponse = stream.message().await;
        assert_eq!(stream.status().await.0, 3);
    }
}

/// Given a client that reports more than gRPC's usual 4 MiB at once, as one with many clusters does; then it is heard.
#[tokio::test]
async fn s77_a_report_may_be_as_long_as_a_request() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    let mut hello = hello(&[]);
    for i in 0..60_000 {
        let mut stats = report(1).cluster_stats.remove(0);
        stats.cluster_name = format!(
            "a cluster with a name of some eighty bytes, as there are in large fleets, {i:06}"
        );
        hello.cluster_stats.push(stats);
    }
    stream.send(&hello);
    let orders: LoadStatsResponse = stream.message().await;
    assert_eq!(orders.clusters, ["a"]);
}

/// Given a client that must be told names; when its node comes to be in a group; then it is told of the group's clusters.
#[tokio::test]
async fn s67_new_orders_follow_the_groups_of_the_node() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&[]));
    let orders: LoadStatsResponse = stream.message().await;
    assert_eq!(orders.clusters, ["a"]);
    let group = crate::groups::group("g", crate::groups::matcher("tests"), &[("b", b"")]);
    server.cache.update(upsert(&[]), vec![group]);
    let orders: LoadStatsResponse = stream.message().await;
    assert_eq!(orders.clusters, ["a", "b"]);
}
