//! The recorder of a channel, and the series of its methods.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use oxds_client::metrics::{
    ATTEMPT_DURATION, ATTEMPT_RECEIVED_SIZE, ATTEMPT_SENT_SIZE, ATTEMPT_STARTED, BACKEND_SERVICE,
    CALL_DURATION, CALL_RETRIES, CALL_RETRY_DELAY, CALL_TRANSPARENT_RETRIES, Instrument, LOCALITY,
    Recorder, Series,
};
use smallvec::SmallVec;
use tonic::{Code, GrpcMethod};

use oxds_client::metrics::{ByCode, ByName, LazySeries};
use oxds_net::rpc::code_name;

/// Value of `grpc.method` for methods that are not known in advance (gRFC A66).
const OTHER: &str = "other";

/// Decides which methods are recorded with their name, although no generated code declares them.
#[derive(Clone)]
pub(crate) struct MethodFilter(pub(crate) Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for MethodFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MethodFilter")
    }
}

/// Recorder of a channel.
#[derive(Debug)]
pub(crate) struct ChannelMetrics {
    recorder: Arc<dyn Recorder>,
    /// Value of `grpc.target`.
    target: Box<str>,
    filter: Option<MethodFilter>,
    wants_locality: bool,
    wants_cluster: bool,
    methods: ByName<MethodSeries>,
}

/// Series of one method.
#[derive(Debug)]
pub(crate) struct MethodSeries {
    /// Value of `grpc.method`.
    name: Box<str>,
    started: LazySeries,
    call_duration: ByCode<LazySeries>,
    retries: LazySeries,
    transparent_retries: LazySeries,
    retry_delay: LazySeries,
    /// By the name of the cluster, or the empty string if it is not recorded.
    clusters: ByName<ClusterSeries>,
}

/// Series of one method in one cluster: by its localities, or by the empty string if they are not recorded.
#[derive(Debug, Default)]
struct ClusterSeries {
    localities: ByName<ByCode<AttemptSeries>>,
}

/// Series of attempts that ended with one status.
#[derive(Debug)]
struct AttemptSeries {
    duration: Series,
    sent: Series,
    received: Series,
}

/// Measurements of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptValues<'a> {
    pub(crate) status: Code,
    /// Name of the cluster, and the locality as `region/zone/sub_zone`; empty if the attempt had none.
    pub(crate) cluster: &'a str,
    pub(crate) locality: &'a str,
    pub(crate) duration: Duration,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Measurements of one RPC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallValues {
    pub(crate) status: Code,
    pub(crate) duration: Duration,
    pub(crate) retries: u32,
    pub(crate) transparent_retries: u32,
    pub(crate) retry_delay: Duration,
}

impl ChannelMetrics {
    pub(crate) fn new(
        recorder: Arc<dyn Recorder>,
        target: &str,
        filter: Option<MethodFilter>,
    ) -> Self {
        Self {
            wants_locality: recorder.wants_label(LOCALITY),
            wants_cluster: recorder.wants_label(BACKEND_SERVICE),
            recorder,
            target: target.into(),
            filter,
            methods: ByName::default(),
        }
    }

    /// Returns the series of a request's method.
    pub(crate) fn method<B>(&self, request: &Request<B>) -> Arc<MethodSeries> {
        let path = request.uri().path();
        let path = path.strip_prefix('/').unwrap_or(path);
        let name = if self.is_recorded(request, path) {
            path
        } else {
            OTHER
        };
        self.methods.get(name, || MethodSeries::new(name))
    }

    /// Returns whether a method is recorded with its name.
    fn is_recorded<B>(&self, request: &Request<B>, path: &str) -> bool {
        // gRFC A66: names that no code declares may be any number, so they are recorded only if the application says
        // so. Clients that tonic generates declare theirs in an extension.
        let declared = request.extensions().get::<GrpcMethod<'static>>();
        let is_declared = declared.is_some_and(|method| {
            path.split_once('/') == Some((method.service(), method.method()))
        });
        is_declared || self.filter.as_ref().is_some_and(|filter| filter.0(path))
    }

    /// Counts the start of an attempt.
    pub(crate) fn attempt_started(&self, method: &MethodSeries) {
        let labels = [&*method.name, &*self.target];
        let series = method
            .started
            .get(&self.recorder, &ATTEMPT_STARTED, &labels);
        series.add(1);
    }

    /// Records the end of an attempt.
    pub(crate) fn attempt_ended(&self, method: &MethodSeries, values: AttemptValues<'_>) {
        let cluster = if self.wants_cluster {
            values.cluster
        } else {
            ""
        };
        let locality = if self.wants_locality {
            values.locality
        } else {
            ""
        };
        let of_cluster = method.clusters.get(cluster, ClusterSeries::default);
        let of_locality = of_cluster.localities.get(locality, ByCode::default);
        let series = of_locality.get(values.status, || {
            let locality = locality_label(locality);
            let bind = |instrument| {
                let labels = self.labels(instrument, |key| match key {
                    "grpc.method" => &method.name,
                    "grpc.status" => code_name(values.status),
                    BACKEND_SERVICE => cluster,
                    LOCALITY => &locality,
                    _ => "",
                });
                Series::new(&self.recorder, instrument, &labels)
            };
            AttemptSeries {
                duration: bind(&ATTEMPT_DURATION),
                sent: bind(&ATTEMPT_SENT_SIZE),
                received: bind(&ATTEMPT_RECEIVED_SIZE),
            }
        });
        series.duration.record(values.duration.as_secs_f64());
        series.sent.record(as_f64(values.sent));
        series.received.record(as_f64(values.received));
    }

    /// Records the end of an RPC.
    pub(crate) fn call_ended(&self, method: &MethodSeries, values: CallValues) {
        let labels = [&*method.name, &*self.target, code_name(values.status)];
        let by_code = method.call_duration.get(values.status, LazySeries::default);
        let series = by_code.get(&self.recorder, &CALL_DURATION, &labels);
        series.record(values.duration.as_secs_f64());
        let labels = &labels[..2];
        // gRFC A96: calls without retries are not recorded.
        if values.retries > 0 {
            let series = &method.retries;
            let series = series.get(&self.recorder, &CALL_RETRIES, labels);
            series.record(f64::from(values.retries));
        }
        if values.transparent_retries > 0 {
            let series = &method.transparent_retries;
            let series = series.get(&self.recorder, &CALL_TRANSPARENT_RETRIES, labels);
            series.record(f64::from(values.transparent_retries));
        }
        if !values.retry_delay.is_zero() {
            let series = &method.retry_delay;
            let series = series.get(&self.recorder, &CALL_RETRY_DELAY, labels);
            series.record(values.retry_delay.as_secs_f64());
        }
    }

    /// Adds to a counter that is not of RPCs. `value` returns the values of the labels besides `grpc.target`.
    pub(crate) fn add<'a>(
        &'a self,
        counter: &'static Instrument,
        by: u64,
        value: impl Fn(&'static str) -> &'a str,
    ) {
        self.recorder.add(counter, &self.labels(counter, value), by);
    }

    /// Adds to an up-down counter, like [`add`](Self::add).
    pub(crate) fn change<'a>(
        &'a self,
        counter: &'static Instrument,
        by: i64,
        value: impl Fn(&'static str) -> &'a str,
    ) {
        let labels = self.labels(counter, value);
        self.recorder.change(counter, &labels, by);
    }

    /// Adds values to a histogram, like [`add`](Self::add).
    pub(crate) fn record_all<'a>(
        &'a self,
        histogram: &'static Instrument,
        values: impl IntoIterator<Item = f64>,
        value: impl Fn(&'static str) -> &'a str,
    ) {
        let labels = self.labels(histogram, value);
        let series = Series::new(&self.recorder, histogram, &labels);
        values.into_iter().for_each(|value| series.record(value));
    }

    /// Returns the values of the labels that the recorder gets.
    fn labels<'a>(
        &'a self,
        instrument: &'static Instrument,
        value: impl Fn(&'static str) -> &'a str,
    ) -> SmallVec<[&'a str; 6]> {
        let keys = instrument.keys(|key| self.recorder.wants_label(key));
        let values = keys.map(|key| match key {
            "grpc.target" => &*self.target,
            other => value(other),
        });
        values.collect()
    }
}

impl MethodSeries {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            started: LazySeries::default(),
            call_duration: ByCode::default(),
            retries: LazySeries::default(),
            transparent_retries: LazySeries::default(),
            retry_delay: LazySeries::default(),
            clusters: ByName::default(),
        }
    }
}

/// Returns the value of `grpc.lb.locality` (gRFC A78) for a locality as `region/zone/sub_zone`; empty without one.
pub(crate) fn locality_label(locality: &str) -> String {
    if locality.is_empty() {
        return String::new();
    }
    let mut parts = locality.splitn(3, '/');
    let [region, zone, sub_zone] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    format!(r#"{{region="{region}", zone="{zone}", sub_zone="{sub_zone}"}}"#)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn as_f64(size: u64) -> f64 {
    size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c260_locality_label_is_that_of_a78() {
        for (locality, label) in [
            ("", ""),
            ("eu", r#"{region="eu", zone="", sub_zone=""}"#),
            ("eu/a", r#"{region="eu", zone="a", sub_zone=""}"#),
            ("eu/a/1", r#"{region="eu", zone="a", sub_zone="1"}"#),
        ] {
            assert_eq!(locality_label(locality), label);
        }
    }
}
