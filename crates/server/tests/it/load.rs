//! LRS over a real socket (S-66, S-67).

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{Locality, Node};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterStats, EndpointLoadMetricStats, UpstreamLocalityStats,
};
use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use oxds_server::{LoadReports, Server};

use crate::admin::json;
use crate::client::{Stream, node};
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

/// Given clusters a and b, when a client with `send_all_clusters` support sends its node, then the response asks for
/// all clusters every five seconds. When the client reports, then the status shows the load.
#[tokio::test]
async fn s66_reported_loads_are_in_the_status() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&["envoy.lrs.supports_send_all_clusters"]));
    let response: LoadStatsResponse = stream.message().await;
    assert!(response.send_all_clusters && response.clusters.is_empty());
    assert_eq!(response.load_reporting_interval.unwrap().seconds, 5);

    for issued in [30, 20] {
        let mut report = report(issued);
        report.cluster_stats[0].load_report_interval = Some(oxds_types::discovery::Duration {
            seconds: 60,
            nanos: 0,
        });
        stream.send(&report);
    }
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
    // Both cover the last minute, so their rates add up to 50 requests in 60 s.
    let rate = load["localities"][0]["rate_10s"].as_f64().unwrap();
    assert!((0.33..0.84).contains(&rate), "{rate}");
}

/// Given an interval of zero, or of ages, then clients are asked for the shortest one, or for the longest that protobuf
/// has.
#[tokio::test]
async fn s66_requested_interval_is_in_the_range_of_protobuf() {
    for (interval, expected) in [
        (Duration::ZERO, (0, 100_000_000)),
        (Duration::MAX, (315_576_000_000, 0)),
    ] {
        let reports = LoadReports::every(interval);
        let server = Running::start(Server::builder().load_reports(reports)).await;
        server.cache.apply(upsert(&["a"]));
        let mut stream = Stream::open(server.grpc, LRS).await;
        stream.send(&hello(&[]));
        let response: LoadStatsResponse = stream.message().await;
        let sent = response.load_reporting_interval.unwrap();
        assert_eq!((sent.seconds, sent.nanos), expected);
    }
}

/// Given a client without `send_all_clusters` support, when a cluster is added or removed, or the interval changes,
/// then the client gets a new response. When only the content of a cluster changes, then it does not.
#[tokio::test]
async fn s67_lrs_response_follows_clusters_and_interval() {
    let reports = LoadReports::every(Duration::from_secs(1));
    let server = Running::start(Server::builder().load_reports(reports.clone())).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&["something.else"]));
    server.cache.apply(upsert(&["a"]));
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a"]);

    server.cache.apply(upsert(&["b"]));
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a", "b"]);
    let mut changed = upsert(&[]);
    changed.upserts.push(cluster("a", b"\x10\x03").into());
    server.cache.apply(changed);
    server.cache.apply(removal(&["b"]));
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a"]);

    reports.set_interval(Duration::from_millis(2500));
    let response: LoadStatsResponse = stream.message().await;
    let interval = response.load_reporting_interval.unwrap();
    assert_eq!((interval.seconds, interval.nanos), (2, 500_000_000));
}

/// Given an open LRS stream, when the server shuts down, then the stream ends with UNAVAILABLE.
#[tokio::test]
async fn s79_shutdown_ends_load_reporting() {
    let mut server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&[]));
    let _: LoadStatsResponse = stream.message().await;
    server.stop();
    assert_eq!(stream.status().await.0, 14);
}

/// Given impossible numbers in reports, then all sums stay finite. Given a report for a cluster that is not served,
/// then the status shows it. Given names over the limit, then the stream is refused.
#[tokio::test]
async fn s66_nonsense_in_reports_is_harmless() {
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
    named.cluster_stats[0].cluster_name = "unknown cluster".into();
    stream.send(&named);
    let page = until("all reports", async || {
        let (_, page) = crate::admin::get(server.http, "/status.json").await;
        page.contains("unknown cluster").then_some(page)
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

/// Given a client with many clusters, when it sends a report over the usual 4 MiB of gRPC, then the report is accepted.
#[tokio::test]
async fn s77_load_report_has_the_size_limit_of_requests() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    let mut hello = hello(&[]);
    for i in 0..60_000 {
        let mut stats = report(1).cluster_stats.remove(0);
        stats.cluster_name = format!(
            "a cluster with a name of about eighty bytes, as is common in large fleets, {i:06}"
        );
        hello.cluster_stats.push(stats);
    }
    stream.send(&hello);
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a"]);
}

/// Given a client without `send_all_clusters` support, when a group begins to match its node, then the response lists
/// the clusters of the group, too.
#[tokio::test]
async fn s67_lrs_response_follows_the_groups_of_the_node() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, LRS).await;
    stream.send(&hello(&[]));
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a"]);
    let group = crate::groups::group("g", crate::groups::matcher("tests"), &[("b", b"")]);
    server.cache.update(upsert(&[]), vec![group]);
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a", "b"]);
}
