//! The report of `oxds call`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxds_channel::{ChannelStatus, EjectionReason, EndpointStatus, code_name};
use serde::Serialize;
use tonic::Code;

use super::counts::Counts;
use crate::table::one_line;
use crate::unary::CallOutcome;

/// Results of all calls.
#[derive(Debug, Default)]
pub(super) struct CallReport {
    statuses: BTreeMap<&'static str, u64>,
    /// Number of failed calls by code and message.
    failures: BTreeMap<(&'static str, String), u64>,
    endpoints: BTreeMap<EndpointKey, EndpointCount>,
    /// Number of retries by policy.
    retries: u64,
    /// Number of dropped calls by cluster and category; no category for the limit of concurrent requests.
    drops: BTreeMap<(Arc<str>, Option<Arc<str>>), u64>,
    channel: ChannelCounts,
    took: Vec<Duration>,
}

/// Counts that no call has.
#[derive(Debug, Default)]
struct ChannelCounts {
    attempts: u64,
    transparent_retries: u64,
    ejections: Vec<EjectionJson>,
    ejected: Vec<EjectedJson>,
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
        if let Some(dropped) = outcome.dropped {
            let key = (dropped.cluster, dropped.category);
            *self.drops.entry(key).or_default() += 1;
        }
        self.took.push(outcome.took);
    }

    /// Sets the counts of the channel, and its state after the last call.
    pub(super) fn set_channel(&mut self, counts: &Counts, status: &ChannelStatus) {
        let ejections = counts.ejections().into_iter();
        let clusters = status.clusters.iter();
        let endpoints = clusters.flat_map(|cluster| &cluster.endpoints);
        self.channel = ChannelCounts {
            attempts: counts.attempts(),
            transparent_retries: counts.transparent_retries(),
            ejections: ejections
                .map(|((cluster, reason), count)| EjectionJson {
                    cluster,
                    reason,
                    count,
                })
                .collect(),
            ejected: endpoints.filter_map(EjectedJson::of).collect(),
        };
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
        text += &attempts_text(&json);
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
            attempts: self.channel.attempts,
            retries: self.retries,
            transparent_retries: self.channel.transparent_retries,
            drops: self
                .drops
                .iter()
                .map(|((cluster, category), calls)| DropJson {
                    cluster: cluster.to_string(),
                    category: category.as_deref().map(str::to_owned),
                    calls: *calls,
                })
                .collect(),
            ejections: self.channel.ejections.clone(),
            ejected: self.channel.ejected.clone(),
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

/// Returns the lines about attempts, drops and ejections; nothing if every call was one attempt.
fn attempts_text(json: &CallJson<'_>) -> String {
    let mut lines = Vec::new();
    if json.attempts != json.calls || json.retries > 0 {
        lines.push(format!(
            "attempts  {}, {} of them retries by policy and {} transparent retries",
            json.attempts, json.retries, json.transparent_retries
        ));
    }
    for drop in &json.drops {
        let category = drop.category.as_deref();
        let reason = category.unwrap_or("limit of concurrent requests");
        lines.push(format!(
            "dropped   {} × {}: {reason}",
            drop.calls, drop.cluster
        ));
    }
    for ejection in &json.ejections {
        lines.push(format!(
            "ejections {} × {}: {}",
            ejection.count, ejection.cluster, ejection.reason
        ));
    }
    for ejected in &json.ejected {
        lines.push(format!(
            "ejected   {} ({}) for {:.1} s at least: {}",
            ejected.address, ejected.cluster, ejected.seconds_left, ejected.reason
        ));
    }
    let with_breaks = lines.into_iter().map(|line| line + "\n");
    let text: String = with_breaks.collect();
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
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
    /// Number of attempts of all calls. A call that fails before an endpoint is chosen may have none.
    attempts: u64,
    /// Number of retries by policy.
    retries: u64,
    transparent_retries: u64,
    /// Calls that the control plane's configuration dropped.
    drops: Vec<DropJson>,
    /// Ejections of endpoints by outlier detection during the calls.
    ejections: Vec<EjectionJson>,
    /// Endpoints that are ejected after the last call.
    ejected: Vec<EjectedJson>,
    latency_ms: LatencyJson,
}

#[derive(Debug, Serialize)]
struct DropJson {
    cluster: String,
    /// Category of the assignment; `null` for the limit of concurrent requests.
    category: Option<String>,
    calls: u64,
}

#[derive(Clone, Debug, Serialize)]
struct EjectionJson {
    cluster: String,
    reason: String,
    count: u64,
}

#[derive(Clone, Debug, Serialize)]
struct EjectedJson {
    cluster: String,
    address: SocketAddr,
    reason: &'static str,
    /// Time until the endpoint may return.
    seconds_left: f64,
}

impl EjectedJson {
    fn of(endpoint: &EndpointStatus) -> Option<Self> {
        let ejected = endpoint.ejected?;
        let left = ejected.until.saturating_duration_since(Instant::now());
        Some(Self {
            cluster: endpoint.endpoint.cluster.to_string(),
            address: endpoint.endpoint.address,
            // As in metrics (gRFC A91).
            reason: match ejected.reason {
                EjectionReason::SuccessRate => "success_rate",
                EjectionReason::FailurePercentage => "failure_percentage",
            },
            seconds_left: rounded(left.as_secs_f64()),
        })
    }
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
            dropped: None,
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
