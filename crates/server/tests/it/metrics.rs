//! The page of metrics: names, help, units, and the time until clients have answered a change.

use std::collections::{BTreeMap, BTreeSet};

use http::Response;
use oxds_server::Server;
use oxds_types::discovery::{DiscoveryResponse, Status};

use crate::admin::get_as;
use crate::client::{CDS, SOTW, Stream, ack, ask};
use crate::{Running, upsert};

/// Name, type and help of each metric of a page, and its labels.
#[derive(Debug, Default)]
struct Metric {
    sort: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Parses a page in the text format of OpenMetrics. A counter has its name with `_total`.
fn parse(page: &str) -> BTreeMap<String, Metric> {
    let (mut metrics, mut helps) = (BTreeMap::<String, Metric>::new(), BTreeMap::new());
    for line in page.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => {
                let earlier = helps.insert(name.to_owned(), help.to_owned());
                assert_eq!(earlier, None, "two helps of {name}");
            }
            ["#", "TYPE", name, sort] => {
                let full = if sort == "counter" {
                    format!("{name}_total")
                } else {
                    name.to_owned()
                };
                let help = helps.get(name).expect(name).clone();
                let metric = Metric {
                    sort: sort.to_owned(),
                    help,
                    ..Metric::default()
                };
                assert!(
                    metrics.insert(full.clone(), metric).is_none(),
                    "{full} twice"
                );
            }
            ["#", "EOF"] => {}
            _ => {
                let (name, labels) = line.split_once(['{', ' ']).expect(line);
                let found = metrics.iter_mut().find(|(of, metric)| {
                    let part = name.strip_prefix(of.as_str());
                    let parts: &[_] = if metric.sort == "histogram" {
                        &["_bucket", "_sum", "_count"]
                    } else {
                        &[""]
                    };
                    part.is_some_and(|part| parts.contains(&part))
                });
                let (_, metric) = found.unwrap_or_else(|| panic!("no type of {line}"));
                if let Some((labels, _)) = labels.split_once('}') {
                    let names = labels.split(',').filter_map(|pair| pair.split_once('='));
                    metric
                        .labels
                        .extend(names.map(|(label, _)| label.to_owned()));
                }
            }
        }
    }
    metrics
}

/// Returns type and labels of the metrics of the server in `docs/metrics.md`:
/// `| name, name | type | labels | meaning |`.
fn documented() -> BTreeMap<String, (String, String)> {
    let page = include_str!("../../../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `oxds_"));
    let mut metrics = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        for name in cells[1].split(", ") {
            let row = (cells[2].clone(), cells[3].clone());
            let earlier = metrics.insert(name.to_owned(), row);
            assert_eq!(earlier, None, "two rows of {name}");
        }
    }
    metrics
}

/// Returns the metrics that every server has: those under the heading of the control plane without labels, but for
/// those of `--state`.
fn of_every_server() -> Vec<String> {
    let page = include_str!("../../../../docs/metrics.md");
    let section = page
        .split("\n## ")
        .find(|text| text.starts_with("Control plane"));
    let rows = section
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("| `oxds_"));
    // A metric with labels appears with its first value.
    let plain = rows.filter(|row| row.split('|').nth(3).is_some_and(|cell| cell.trim() == "–"));
    let names = plain.flat_map(|row| row.split('|').nth(1).unwrap().split(", "));
    let names = names.map(|name| name.trim().trim_matches('`').to_owned());
    names
        .filter(|name| !name.starts_with("oxds_state_"))
        .collect()
}

/// Given a server with a client, then each metric has one help and one type, a name in the conventions of Prometheus,
/// and a row in `docs/metrics.md` with its type and labels.
#[tokio::test]
async fn metrics_are_documented_and_well_named() {
    let server = Running::with_clusters(&["a"]).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    let response = stream.sotw().await;
    stream.send(&ack(&response));
    server
        .counts(r#"oxds_acks_total{resource_type="cds"} 1"#)
        .await;

    const OPEN_METRICS: &str = "application/openmetrics-text";
    let page = get_as(server.http, "/metrics", OPEN_METRICS)
        .await
        .into_body();
    let metrics = parse(&page);
    assert!(metrics.len() > 30, "{metrics:#?}");
    let documented = documented();
    for (name, metric) in &metrics {
        let Metric { sort, help, labels } = metric;
        let (kind, listed) = documented
            .get(name)
            .unwrap_or_else(|| panic!("no row for {name}"));
        assert_eq!(sort, kind, "{name}");
        let listed: BTreeSet<_> = listed.split(", ").map(str::to_owned).collect();
        let unknown: Vec<_> = labels
            .iter()
            .filter(|label| *label != "le" && !listed.contains(*label))
            .collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        let is_lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(
            name.starts_with("oxds_") && name.chars().all(is_lower),
            "{name}"
        );
        // Times are in seconds and sizes in bytes, and nothing else claims a unit.
        for unit in ["_ms", "_millis", "_milliseconds", "_kb", "_count", "_sum"] {
            assert!(!name.ends_with(unit), "{name}");
        }
        assert!(
            sort == "counter" || !name.ends_with("_total"),
            "{name} is a {sort}"
        );
        let begins = help.chars().next().is_some_and(char::is_uppercase);
        assert!(begins && help.len() > 10, "{name}: {help:?}");
    }
    for name in of_every_server() {
        assert!(metrics.contains_key(&name), "{name} is not on the page");
    }
}

pub(crate) fn nack(response: &DiscoveryResponse) -> oxds_types::discovery::DiscoveryRequest {
    let mut nack = ack(response);
    let message = "no".to_owned();
    nack.error_detail = Some(Status {
        code: 3,
        message,
        ..Status::default()
    });
    nack
}

/// Given two clients, when a change is answered by one of them, then it is behind until the other one answers it: with
/// an ACK, with a NACK, or by its end.
#[tokio::test]
async fn convergence_is_counted_with_the_last_answer() {
    let server = Running::start(Server::builder()).await;
    server.cache.apply(upsert(&["a"]));
    let mut streams = [
        Stream::open(server.grpc, SOTW).await,
        Stream::open(server.grpc, SOTW).await,
    ];
    for stream in &mut streams {
        stream.send(&ask(CDS, &[]));
        let response = stream.sotw().await;
        stream.send(&ack(&response));
    }
    server
        .counts(r#"oxds_acks_total{resource_type="cds"} 2"#)
        .await;
    server.counts("oxds_convergence_seconds_count 0").await;
    let [mut first, mut last] = streams;
    for (changes, is_nack) in [(1, false), (2, true)] {
        server.cache.apply(upsert(&[&format!("b{changes}")]));
        let response = first.sotw().await;
        first.send(&ack(&response));
        server.counts("oxds_streams_behind 1").await;
        assert_eq!(
            server.metric("oxds_convergence_seconds_count").await,
            changes - 1
        );
        let response = last.sotw().await;
        last.send(&if is_nack {
            nack(&response)
        } else {
            ack(&response)
        });
        server.counts("oxds_streams_behind 0").await;
        assert_eq!(
            server.metric("oxds_convergence_seconds_count").await,
            changes
        );
    }
    server.cache.apply(upsert(&["c"]));
    let response = first.sotw().await;
    first.send(&ack(&response));
    server.counts("oxds_streams_behind 1").await;
    drop(last);
    server.counts("oxds_convergence_seconds_count 3").await;
}

/// Given readers that ask for OpenMetrics and others, then each gets its format, and the same samples.
#[tokio::test]
async fn metrics_have_the_format_that_is_asked_for() {
    let server = Running::with_clusters(&["a"]).await;
    let content_type = |response: &Response<String>| {
        let value = response.headers().get("content-type").unwrap();
        value.to_str().unwrap().to_owned()
    };
    let open = get_as(server.http, "/metrics", "application/openmetrics-text").await;
    let plain = get_as(server.http, "/metrics", "*/*").await;
    let of_open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(content_type(&open), of_open);
    assert_eq!(
        content_type(&plain),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let (open, plain) = (open.into_body(), plain.into_body());
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE oxds_requests counter\n"));
    assert!(!plain.contains("# EOF") && plain.contains("# TYPE oxds_requests_total counter\n"));
    let names = |page: &str| {
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let names = samples.filter_map(|line| line.split_once(' '));
        names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&open), names(&plain));
}
