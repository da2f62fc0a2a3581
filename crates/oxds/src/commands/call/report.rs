//! The report of `oxds call`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tonic::Code;

use crate::table::one_line;
use crate::unary::{CallOutcome, code_name};

/// Results of all calls.
#[derive(Debug, Default)]
pub(super) struct CallReport {
    statuses: BTreeMap<&'static str, u64>,
    /// Number of failed calls by code and message.
    failures: BTreeMap<(&'static str, String), u64>,
    endpoints: BTreeMap<EndpointKey, EndpointCount>,
    /// Number of retries by policy.
    retries: u64,
    took: Vec<Duration>,
}

/// An endpoint in its cluster, in the order of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndpointKey {
    cluster: Arc<str>,
    priority: usize,
    locality: Arc<str>,
    address: SocketAddr,
}

#[derive(Clone, Copy, Debug, Default)]
struct EndpointCount {
    calls: u64,
    ok: u64,
}

impl CallReport {
    pub(super) fn record(&mut self, outcome: CallOutcome) {
        let (code, ok) = (
            code_name(outcome.status.code()),
            outcome.status.code() == Code::Ok,
        );
        *self.statuses.entry(code).or_default() += 1;
        if !ok {
            let failure = (code, outcome.status.message().to_owned());
            *self.failures.entry(failure).or_default() += 1;
        }
        if let Some(picked) = outcome.endpoint {
            let key = EndpointKey {
                cluster: Arc::clone(&picked.cluster),
                priority: picked.priority,
                locality: Arc::clone(&picked.locality),
                address: picked.address,
            };
            let count = self.endpoints.entry(key).or_default();
            count.calls += 1;
            count.ok += u64::from(ok);
        }
        self.retries += u64::from(outcome.retries);
        self.took.push(outcome.took);
    }

    /// Returns whether every call succeeded.
    pub(super) fn all_ok(&self) -> bool {
        self.statuses.keys().all(|code| *code == "OK")
    }

    /// Returns the report as text for people.
    pub(super) fn text(&mut self, target: &str, method: &str, elapsed: Duration) -> String {
        let json = self.json(target, method, elapsed);
        let mut text = format!(
            "{} calls of {method} to {target} in {:.2} s",
            json.calls, json.seconds
        );
        text += &format!(", {:.0} per second\n\nstatus\n", json.calls_per_second);
        for (status, count) in &json.statuses {
            text += &format!("  {status:<20} {count:>8}\n");
        }
        for failure in &json.failures {
            text += &format!(
                "\n{} × {}: {}\n",
                failure.calls,
                failure.status,
                one_line(&failure.message)
            );
        }
        if !json.endpoints.is_empty() {
            text += &endpoint_table(&json.endpoints);
        }
        if json.retries > 0 {
            text += &format!("\nretries by policy {}\n", json.retries);
        }
        let took = &json.latency_ms;
        text += &format!(
            "\nlatency   p50 {:.2} ms   p90 {:.2} ms   p99 {:.2} ms   max {:.2} ms\n",
            took.p50, took.p90, took.p99, took.max
        );
        text
    }

    /// Returns the report as JSON. Later versions may add fields, and do not rename any.
    pub(super) fn json<'a>(
        &mut self,
        target: &'a str,
        method: &'a str,
        elapsed: Duration,
    ) -> CallJson<'a> {
        self.took.sort_unstable();
        let calls: u64 = self.statuses.values().sum();
        let seconds = elapsed.as_secs_f64();
        let failures = self.failures.iter();
        let endpoints = self.endpoints.iter();
        CallJson {
            target,
            method,
            calls,
            seconds: rounded(seconds),
            calls_per_second: rounded(as_f64(calls) / seconds.max(f64::EPSILON)),
            statuses: self.statuses.clone(),
            failures: failures
                .map(|((status, message), calls)| FailureJson {
                    status,
                    message: message.clone(),
                    calls: *calls,
                })
                .collect(),
            endpoints: endpoints
                .map(|(key, count)| EndpointJson {
                    cluster: key.cluster.to_string(),
                    priority: key.priority,
                    locality: key.locality.to_string(),
                    address: key.address,
                    calls: count.calls,
                    ok: count.ok,
                    share: rounded(as_f64(count.calls) / as_f64(calls)),
                })
                .collect(),
            retries: self.retries,
            latency_ms: LatencyJson {
                p50: self.quantile(0.5),
                p90: self.quantile(0.9),
                p99: self.quantile(0.99),
                max: self.quantile(1.0),
            },
        }
    }

    /// Returns the smallest measured time, in milliseconds, that this share of all calls did not exceed.
    fn quantile(&self, share: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the result is between 0 and the length"
        )]
        let rank = (share * self.took.len() as f64).ceil() as usize;
        let took = self
            .took
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or_default();
        rounded(took.as_secs_f64() * 1e3)
    }
}

fn endpoint_table(endpoints: &[EndpointJson]) -> String {
    let width = |title: &str, of: fn(&EndpointJson) -> usize| {
        endpoints.iter().map(of).max().unwrap_or(0).max(title.len())
    };
    let cluster = width("cluster", |e| e.cluster.chars().count());
    let locality = width("locality", |e| e.locality.chars().count());
    let address = width("endpoint", |e| e.address.to_string().len());
    let mut text = format!(
        "\n{:<cluster$}  prio  {:<locality$}  {:<address$}     calls   share   failed\n",
        "cluster", "locality", "endpoint"
    );
    for e in endpoints {
        text += &format!(
            "{:<cluster$}  {:>4}  {:<locality$}  {:<address$}  {:>8}  {:>5.1}%  {:>7}\n",
            e.cluster,
            e.priority,
            e.locality,
            e.address.to_string(),
            e.calls,
            e.share * 100.0,
            e.calls - e.ok
        );
    }
    text
}

/// The whole report as JSON.
#[derive(Debug, Serialize)]
pub(super) struct CallJson<'a> {
    target: &'a str,
    method: &'a str,
    calls: u64,
    seconds: f64,
    calls_per_second: f64,
    /// Number of calls by status code.
    statuses: BTreeMap<&'static str, u64>,
    failures: Vec<FailureJson>,
    endpoints: Vec<EndpointJson>,
    /// Number of retries by policy, of the calls that got a response.
    retries: u64,
    latency_ms: LatencyJson,
}

#[derive(Debug, Serialize)]
struct FailureJson {
    status: &'static str,
    message: String,
    calls: u64,
}

#[derive(Debug, Serialize)]
struct EndpointJson {
    cluster: String,
    priority: usize,
    locality: String,
    address: SocketAddr,
    calls: u64,
    ok: u64,
    /// Part of all calls, from 0 to 1.
    share: f64,
}

#[derive(Debug, Serialize)]
struct LatencyJson {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    fn outcome(status: Status, millis: u64) -> CallOutcome {
        CallOutcome {
            status,
            endpoint: None,
            retries: 2,
            took: Duration::from_millis(millis),
        }
    }

    #[test]
    fn quantiles_are_measured_values() {
        let mut report = CallReport::default();
        (1..=100)
            .rev()
            .for_each(|ms| report.record(outcome(Status::ok(""), ms)));
        let json = report.json("xds:///a", "/a/b", Duration::from_secs(1));
        assert_eq!((json.latency_ms.p50, json.latency_ms.p99), (50.0, 99.0));
        assert_eq!(json.latency_ms.max, 100.0);
        assert_eq!(json.retries, 200);
        assert!(report.all_ok());
    }

    #[test]
    fn equal_failures_are_printed_once() {
        let mut report = CallReport::default();
        for _ in 0..3 {
            report.record(outcome(Status::unavailable("no listener"), 1));
        }
        let text = report.text("xds:///a", "/a/b", Duration::from_secs(1));
        assert!(text.contains("3 × UNAVAILABLE: no listener"), "{text}");
        assert_eq!(text.matches("no listener").count(), 1);
        assert!(!report.all_ok());
    }
}
