//! Totals of load reports: sums, rates and limits.

use envoy_types::pb::envoy::config::endpoint::v3::cluster_stats::DroppedRequests;
use envoy_types::pb::envoy::config::endpoint::v3::{
    EndpointLoadMetricStats, UnnamedEndpointLoadMetricStats,
};

use super::*;

fn at(seconds: u64) -> Instant {
    Instant::from_epoch(Duration::from_secs(seconds))
}

/// The interval that clients are asked for.
const ASKED: Duration = Duration::from_secs(5);

fn covering(seconds: i64, issued: u64) -> ClusterStats {
    ClusterStats {
        load_report_interval: Some(ProtoDuration { seconds, nanos: 0 }),
        ..report("x", issued)
    }
}

/// Returns the rates over 10 and 60 seconds at a time.
fn rates(totals: &LoadTotals, second: u64) -> (f64, f64) {
    let load = totals.loads(at(second)).remove(0).localities.remove(0);
    (load.rate_10s, load.rate_60s)
}

fn report(zone: &str, issued: u64) -> ClusterStats {
    ClusterStats {
        cluster_name: "shop".into(),
        cluster_service_name: "shop-eds".into(),
        total_dropped_requests: 3,
        dropped_requests: vec![DroppedRequests {
            category: "lb".into(),
            dropped_count: 2,
        }],
        upstream_locality_stats: vec![UpstreamLocalityStats {
            locality: Some(Locality {
                zone: zone.into(),
                ..Locality::default()
            }),
            total_issued_requests: issued,
            total_successful_requests: issued - 1,
            total_error_requests: 1,
            total_requests_in_progress: 7,
            load_metric_stats: vec![EndpointLoadMetricStats {
                metric_name: "queue".into(),
                num_requests_finished_with_metric: 2,
                total_metric_value: 0.5,
            }],
            cpu_utilization: Some(UnnamedEndpointLoadMetricStats {
                num_requests_finished_with_metric: 4,
                total_metric_value: 1.5,
            }),
            ..UpstreamLocalityStats::default()
        }],
        ..ClusterStats::default()
    }
}

/// Given reports of two nodes and two localities, then counts are added up for each, but not requests in progress.
#[test]
fn s66_reports_add_up_by_node_cluster_and_locality() {
    let totals = LoadTotals::default();
    for (second, node, zone, issued) in [
        (1, "a", "x", 10),
        (6, "a", "x", 30),
        (6, "a", "y", 5),
        (6, "b", "x", 1),
    ] {
        assert!(totals.record(at(second), node, &report(zone, issued), ASKED));
    }
    let loads = totals.loads(at(7));
    assert_eq!(loads.len(), 2);
    assert_eq!((&*loads[0].node, &*loads[0].service), ("a", "shop-eds"));
    assert_eq!((loads[0].dropped, loads[0].drops["lb"]), (9, 6));
    let x = &loads[0].localities[0];
    let expected = Counts {
        issued: 40,
        succeeded: 38,
        errors: 2,
    };
    assert_eq!((x.requests, x.in_progress), (expected, 7));
    assert_eq!(
        (x.metrics["queue"].requests, x.metrics["queue"].total),
        (4, 1.0)
    );
    let cpu = x.metrics["cpu_utilization"];
    assert_eq!((cpu.requests, cpu.total), (8, 3.0));
    assert_eq!(loads[1].localities[0].requests.issued, 1);
}

/// Given 100 requests reported every five seconds for two minutes, then the rate is 20/s over both windows. Ten
/// seconds later, the rate over ten seconds is zero.
#[test]
fn s66_rates_cover_10_and_60_seconds() {
    let totals = LoadTotals::default();
    for second in (5..=120).step_by(5) {
        totals.record(at(second), "a", &report("x", 100), ASKED);
    }
    assert_eq!(rates(&totals, 121), (20.0, 20.0));
    assert_eq!(rates(&totals, 131).0, 0.0);
}

/// Given a client that reports each minute, then its rates are those of the minute that a report covers, at any time
/// between two reports. Given one that reports ten times per second, then they are those of its reports.
#[test]
fn s66_rates_follow_the_reported_interval() {
    let totals = LoadTotals::default();
    let minute = 60;
    totals.record(at(100), "a", &covering(minute, 6_000), ASKED);
    for second in [100, 109, 130, 159] {
        assert_eq!(rates(&totals, second), (100.0, 100.0), "at {second}");
    }
    totals.record(at(160), "a", &covering(minute, 600), ASKED);
    assert_eq!(rates(&totals, 200), (10.0, 10.0));
    // Two intervals without a report: the client is gone, or silent.
    assert_eq!(rates(&totals, 280), (0.0, 0.0));

    let often = LoadTotals::default();
    for tenth in 1..=1_200 {
        let now = Instant::from_epoch(Duration::from_millis(tenth * 100));
        let mut report = report("x", 5);
        let nanos = 100_000_000;
        report.load_report_interval = Some(ProtoDuration { seconds: 0, nanos });
        often.record(now, "a", &report, ASKED);
    }
    let (short, long) = rates(&often, 120);
    assert!(
        (short - 50.0).abs() < 0.1 && (long - 50.0).abs() < 0.1,
        "{short} {long}"
    );
}

/// Given a client with reports of the latest ten seconds only, then the rate over a minute covers those. A locality
/// without requests is left out of reports, and its rate falls.
#[test]
fn s66_rates_cover_the_reported_time_only() {
    let totals = LoadTotals::default();
    totals.record(at(100), "a", &covering(5, 50), ASKED);
    totals.record(at(105), "a", &covering(5, 100), ASKED);
    assert_eq!(rates(&totals, 105), (15.0, 15.0));
    let mut idle = covering(5, 1);
    idle.upstream_locality_stats.clear();
    totals.record(at(110), "a", &idle, ASKED);
    assert_eq!(rates(&totals, 110), (10.0, 10.0));
    totals.record(at(115), "a", &idle, ASKED);
    assert_eq!(rates(&totals, 115), (0.0, 7.5));
}

/// Given an interval of zero, or an impossible one, then the time between two reports counts, and for the first report
/// the interval that was asked for. Reports at the same time do not divide by zero.
#[test]
fn s66_interval_of_zero_is_replaced_by_the_measured_one() {
    for seconds in [0, -1, i64::MIN] {
        let totals = LoadTotals::default();
        totals.record(at(5), "a", &covering(seconds, 100), ASKED);
        assert_eq!(rates(&totals, 5), (20.0, 20.0), "{seconds}");
        totals.record(at(15), "a", &covering(seconds, 100), ASKED);
        assert_eq!(rates(&totals, 15).0, 10.0, "{seconds}");
        totals.record(at(15), "a", &covering(seconds, 100), Duration::ZERO);
        let (short, long) = rates(&totals, 15);
        assert!(short.is_finite() && long.is_finite(), "{seconds}");
    }
}

/// Given a client that reports every five minutes, then its row stays for three of its intervals. An interval of ages
/// keeps no row for ages, unless it was asked for.
#[test]
fn s66_ageing_follows_the_reported_interval() {
    let totals = LoadTotals::default();
    totals.record(at(1_000), "a", &covering(300, 1), ASKED);
    assert_eq!(totals.loads(at(1_899)).len(), 1);
    assert_eq!(totals.loads(at(1_900)).len(), 0);
    totals.record(at(2_000), "a", &covering(i64::MAX, 1), ASKED);
    assert_eq!(totals.loads(at(2_000 + 3 * 3_600)).len(), 0);
    let day = Duration::from_secs(86_400);
    totals.record(at(100_000), "a", &covering(86_400, 1), day);
    assert_eq!(totals.loads(at(100_000 + 2 * 86_400)).len(), 1);
}

/// Given many processes that report as one node, then the history is bounded, and its sum is right.
#[test]
fn s66_history_of_a_locality_is_bounded() {
    let totals = LoadTotals::default();
    for report in 0..1_000 {
        let now = Instant::from_epoch(Duration::from_millis(100_000 + report));
        totals.record(now, "a", &covering(5, 10), ASKED);
    }
    let (short, _) = rates(&totals, 101);
    assert!((1_600.0..2_100.0).contains(&short), "{short}");
}

#[test]
fn s67_rows_of_a_vanished_client_expire() {
    let totals = LoadTotals::default();
    totals.record(at(1), "gone", &report("x", 1), ASKED);
    totals.record(at(30), "here", &report("x", 1), ASKED);
    assert_eq!(totals.loads(at(60)).len(), 2);
    assert_eq!(totals.loads(at(61)).len(), 1);
}

/// Given a client that invents localities, then their number is bounded.
#[test]
fn s60_invented_names_are_bounded() {
    let totals = LoadTotals::default();
    for zone in 0..2 * MAX_NAMES {
        totals.record(at(1), "a", &report(&zone.to_string(), 1), ASKED);
    }
    assert_eq!(totals.loads(at(1))[0].localities.len(), MAX_NAMES);
}

/// Given clients that invent clusters with long names, then all names fit the budget. When the rows expire, then the
/// budget is free again.
#[test]
fn s60_invented_clusters_are_bounded() {
    let totals = LoadTotals::default();
    let name = |i: usize| format!("{i}{}", "x".repeat(4 << 20));
    let mut clusters = 0;
    let mut record = |second| {
        clusters += 1;
        let mut report = report("", 1);
        report.cluster_name = name(clusters);
        totals.record(at(second), "a", &report, ASKED)
    };
    let fitting = (0..200).take_while(|_| record(1)).count();
    assert!((50..=64).contains(&fitting), "{fitting}");
    assert!(!record(50));
    assert!(record(61));
    assert_eq!(totals.loads(at(61)).len(), 1);
    drop(totals.loads(at(200)));
    assert_eq!(totals.lock().budget.free(), Budget::default().free());
}

/// Given a server with room for 1 MiB, when clients invent clusters, then the sum of their rows stays below it, and the
/// server sees the sum. Rows that expire are given back.
#[test]
fn s60_rows_count_in_the_budget_of_the_server() {
    let limits = crate::Limits {
        client_bytes: 1 << 20,
        ..crate::Limits::default()
    };
    let server = calls::Budget::of_server(&limits);
    let totals = LoadTotals::default();
    assert!(totals.record(at(1), "early", &report("", 1), ASKED));
    totals.count_in(&server);
    assert!((100..10_000).contains(&server.used()), "{}", server.used());
    let record = |i: usize| {
        let mut report = report("", 1);
        report.cluster_name = format!("{i}{}", "x".repeat(100 << 10));
        totals.record(at(1), "a", &report, ASKED)
    };
    let fitting = (0..20).take_while(|i| record(*i)).count();
    assert!((5..=10).contains(&fitting), "{fitting}");
    assert!(server.used() <= 1 << 20);
    drop(totals.loads(at(200)));
    assert_eq!(server.used(), 0);
}
