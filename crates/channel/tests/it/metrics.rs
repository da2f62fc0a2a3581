//! Tests of metrics (gRFC A66, A78, A91, A94, A96), as a recorder of the program gets them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use oxds_channel::testing::{Call, ClusterSpec, EchoBackend, Script, call, cluster, config};
use oxds_channel::{Builder, Pool, XdsChannel};
use oxds_client::metrics::{Instrument, Recorder};
use oxds_core::lb::policy::{PolicyConfig, WeightedRoundRobinConfig};
use oxds_core::lb::{OutlierConfig, RetryPolicy};
use tonic::{Code, GrpcMethod, Status};
use tower_service::Service;

use crate::raw::{GoAway, RawBackend};
use crate::support::{
    backends, builder, call_once, detection, eventually, ready, retry_policy, spread,
};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const LONG: Duration = Duration::from_secs(3600);
const UNAVAILABLE: u32 = 14;

/// A recorder that keeps every measurement: the sum of a counter, and the values of a histogram.
#[derive(Debug, Default)]
struct RecordedMetrics {
    series: Mutex<BTreeMap<String, Vec<f64>>>,
    optional: &'static [&'static str],
}

impl RecordedMetrics {
    fn new(optional: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self {
            series: Mutex::default(),
            optional,
        })
    }

    fn change(&self, instrument: &Instrument, labels: &[&str], change: impl FnOnce(&mut Vec<f64>)) {
        let keys: Vec<_> = instrument.keys(|key| self.wants_label(key)).collect();
        assert_eq!(keys.len(), labels.len(), "{}", instrument.name);
        let pairs = keys.iter().zip(labels);
        let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        let name = format!("{} {}", instrument.name, pairs.join(" "));
        change(self.series.lock().unwrap().entry(name).or_default());
    }

    fn sum(&self, instrument: &Instrument, labels: &[&str], by: f64) {
        self.change(instrument, labels, |values| match values.first_mut() {
            Some(sum) => *sum += by,
            None => values.push(by),
        });
    }

    /// Returns the values of the series with this text, which must have all its labels.
    fn values(&self, series: &str) -> Vec<f64> {
        let all = self.series.lock().unwrap();
        all.get(series).cloned().unwrap_or_default()
    }

    /// Returns the sum of a counter or histogram, over all series that begin with this text.
    fn total(&self, begin: &str) -> f64 {
        let all = self.series.lock().unwrap();
        let of_name = all.iter().filter(|(name, _)| name.starts_with(begin));
        of_name.flat_map(|(_, values)| values).sum()
    }

    /// Returns the names of the series that begin with this text, with the number of their values.
    fn counts(&self, begin: &str) -> Vec<(String, usize)> {
        let all = self.series.lock().unwrap();
        let of_name = all.iter().filter(|(name, _)| name.starts_with(begin));
        of_name
            .map(|(name, values)| (name.clone(), values.len()))
            .collect()
    }
}

impl Recorder for RecordedMetrics {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        self.sum(counter, labels, by as f64);
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        self.change(gauge, labels, |values| *values = vec![value as f64]);
    }

    fn end(&self, gauge: &'static Instrument, labels: &[&str]) {
        self.change(gauge, labels, Vec::clear);
    }

    fn record(&self, histogram: &'static Instrument, labels: &[&str], value: f64) {
        self.change(histogram, labels, |values| values.push(value));
    }

    fn change(&self, counter: &'static Instrument, labels: &[&str], by: i64) {
        self.sum(counter, labels, by as f64);
    }

    fn wants_label(&self, key: &str) -> bool {
        self.optional.contains(&key)
    }
}

const STARTED: &str = "grpc.client.attempt.started grpc.method=other grpc.target=xds:///svc";
const RETRIES: &str = "grpc.client.call.retries grpc.method=other grpc.target=xds:///svc";
const TRANSPARENT: &str =
    "grpc.client.call.transparent_retries grpc.method=other grpc.target=xds:///svc";
const DELAY: &str = "grpc.client.call.retry_delay grpc.method=other grpc.target=xds:///svc";

/// Returns the series of a histogram of calls or attempts of an unknown method.
fn of(instrument: &str, status: &str) -> String {
    format!(
        "grpc.client.{instrument} grpc.method=other grpc.target=xds:///svc grpc.status={status}"
    )
}

const SENT: &str = "attempt.sent_total_compressed_message_size";
const RECEIVED: &str = "attempt.rcvd_total_compressed_message_size";
const CALL: &str = "call.duration";
const ATTEMPT: &str = "attempt.duration";

fn recorded(builder: Builder, kept: &Arc<RecordedMetrics>) -> (Script, XdsChannel) {
    let recorder = Arc::clone(kept) as Arc<dyn Recorder>;
    Script::channel(builder.recorder(recorder)).unwrap()
}

fn one(backend: &EchoBackend) -> ClusterSpec {
    cluster("one", &[&[("eu", 1, &[backend.address()])]], 0)
}

/// Returns a recorded channel to a backend, which is connected.
async fn to(backend: &EchoBackend) -> (Arc<RecordedMetrics>, Script, XdsChannel) {
    let kept = RecordedMetrics::new(&[]);
    let (script, channel) = recorded(builder(), &kept);
    script.set(config(ALL, vec![one(backend)]));
    ready(&channel, 1).await;
    (kept, script, channel)
}

fn retrying(max_attempts: u32, base: Duration) -> Arc<RetryPolicy> {
    retry_policy(max_attempts, base, base * 10)
}

#[tokio::test]
async fn c260_call_has_the_metrics_of_a66() {
    let [backend] = backends().await;
    let (kept, _script, channel) = to(&backend).await;
    call_once(&channel).await.unwrap();
    assert_eq!(kept.values(STARTED), [1.0]);
    assert_eq!(kept.values(&of(SENT, "OK")), [5.0]);
    assert_eq!(kept.values(&of(RECEIVED, "OK")), [5.0]);
    // and a call takes at least as long as its only attempt
    let [call, attempt] = [CALL, ATTEMPT].map(|name| kept.values(&of(name, "OK")));
    assert_eq!((call.len(), attempt.len()), (1, 1));
    assert!(call[0] >= attempt[0] && attempt[0] > 0.0, "{kept:?}");
    // and nothing else is recorded of it
    assert_eq!(kept.counts("grpc.client.").len(), 5, "{kept:?}");
}

/// Makes a call of a method that is declared as generated clients do it.
async fn declared(channel: &XdsChannel, path: &str, service: &'static str, method: &'static str) {
    let mut request = Request::post(path).body(Full::from("")).unwrap();
    request
        .extensions_mut()
        .insert(GrpcMethod::new(service, method));
    let response = channel.clone().call(request).await.unwrap();
    response.into_body().collect().await.unwrap();
}

#[tokio::test]
async fn c260_only_declared_and_allowed_methods_have_names() {
    let [backend] = backends().await;
    let kept = RecordedMetrics::new(&[]);
    let allowed = builder().method_attribute_filter(|method| method == "shop.Cart/Allowed");
    let (script, channel) = recorded(allowed, &kept);
    script.set(config(ALL, vec![one(&backend)]));
    declared(&channel, "/shop.Cart/Add", "shop.Cart", "Add").await;
    // A declaration of another method does not count.
    declared(&channel, "/shop.Cart/Random1", "shop.Cart", "Add").await;
    for path in ["/shop.Cart/Allowed", "/shop.Cart/Random2"] {
        crate::support::call_path(&channel, path).await.unwrap();
    }
    let started = |method: &str| {
        let labels = format!("grpc.method={method} grpc.target=xds:///svc");
        kept.total(&format!("grpc.client.attempt.started {labels}"))
    };
    let counts = ["shop.Cart/Add", "shop.Cart/Allowed", "other"].map(started);
    assert_eq!(counts, [1.0, 1.0, 2.0]);
    assert_eq!(kept.counts("grpc.client.call.duration").len(), 3);
}

#[tokio::test]
async fn c260_each_attempt_of_a_retried_call_is_recorded() {
    let [backend] = backends().await;
    let (kept, script, channel) = to(&backend).await;
    let policy = retrying(3, Duration::from_millis(1));
    script.set(
        config(ALL, vec![one(&backend)])
            .map_routes(|forward| forward.retry = Some(Arc::clone(&policy))),
    );
    eventually(|| channel.status().revision == 2).await;
    backend.fail_next(2, UNAVAILABLE, HeaderMap::new());
    call_once(&channel).await.unwrap();
    assert_eq!(kept.values(STARTED), [3.0]);
    assert_eq!(kept.values(&of(SENT, "UNAVAILABLE")), [5.0, 5.0]);
    assert_eq!(kept.values(&of(RECEIVED, "UNAVAILABLE")), [0.0, 0.0]);
    assert_eq!(kept.values(&of(SENT, "OK")), [5.0]);
    assert_eq!(kept.counts(&of(ATTEMPT, "UNAVAILABLE"))[0].1, 2);
    // and the call is one, with two retries
    assert_eq!(kept.counts("grpc.client.call.duration").len(), 1);
    assert_eq!(kept.values(&of(CALL, "OK")).len(), 1);
    assert_eq!(kept.values(RETRIES), [2.0]);
    assert_eq!(kept.values(DELAY).len(), 1);
    assert!(kept.counts(TRANSPARENT).is_empty(), "{kept:?}");
    // when the retries do not help, the call has the status of the last attempt
    backend.fail_next(3, UNAVAILABLE, HeaderMap::new());
    call_once(&channel).await.unwrap_err();
    assert_eq!(kept.values(STARTED), [6.0]);
    assert_eq!(kept.values(&of(ATTEMPT, "UNAVAILABLE")).len(), 5);
    assert_eq!(kept.values(&of(CALL, "UNAVAILABLE")).len(), 1);
    assert_eq!(kept.values(RETRIES), [2.0, 2.0]);
}

#[tokio::test]
async fn c260_refused_stream_is_a_transparent_retry() {
    // given two endpoints, of which the first sends GOAWAY instead of an answer
    let refusing = RawBackend::start(|_| GoAway::on_request(0, 0)).await;
    let [other] = backends().await;
    let kept = RecordedMetrics::new(&[]);
    let (script, channel) = recorded(builder(), &kept);
    let addresses = [refusing.address(), other.address()];
    script.set(config(
        ALL,
        vec![cluster("one", &[&[("eu", 1, &addresses)]], 0)],
    ));
    ready(&channel, 2).await;
    while kept.counts(TRANSPARENT).is_empty() {
        call_once(&channel).await.unwrap();
    }
    let retried = kept.values(TRANSPARENT);
    let attempts = kept.values(STARTED)[0];
    let calls = kept.values(&of(CALL, "OK")).len() as f64;
    assert_eq!(attempts, calls + retried.iter().sum::<f64>());
    assert!(!kept.values(&of(ATTEMPT, "UNAVAILABLE")).is_empty());
    assert!(kept.values(RETRIES).is_empty(), "{kept:?}");
}

#[tokio::test]
async fn c260_failed_calls_have_their_status() {
    let [backend] = backends().await;
    let kept = RecordedMetrics::new(&[]);
    let (script, channel) = recorded(builder(), &kept);
    // given an error of the control plane, no attempt starts
    script.fail("gone");
    eventually(|| channel.status().error.is_some()).await;
    call_once(&channel).await.unwrap_err();
    assert_eq!(kept.values(&of(CALL, "UNAVAILABLE")).len(), 1);
    assert!(kept.counts("grpc.client.attempt").is_empty(), "{kept:?}");
    // given a drop, the attempt ends before an endpoint is chosen
    let dropping = cluster("one", &[&[("eu", 1, &[backend.address()])]], 1_000_000);
    script.set(config(ALL, vec![dropping]));
    eventually(|| channel.status().error.is_none()).await;
    call_once(&channel).await.unwrap_err();
    assert_eq!(kept.values(&of(CALL, "UNAVAILABLE")).len(), 2);
    assert_eq!(kept.values(&of(SENT, "UNAVAILABLE")), [0.0]);
    // given a status of the endpoint
    script.set(config(ALL, vec![one(&backend)]));
    ready(&channel, 1).await;
    backend.fail_next(1, 5, HeaderMap::new());
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(kept.values(&of(SENT, "NOT_FOUND")), [5.0]);
    // given a deadline
    backend.set_delay(LONG);
    let late = Call {
        timeout: Some(Duration::from_millis(50)),
        ..Call::default()
    };
    call(&channel, late).await.unwrap_err();
    assert_eq!(kept.values(&of(CALL, "DEADLINE_EXCEEDED")).len(), 1);
    assert_eq!(kept.values(&of(ATTEMPT, "DEADLINE_EXCEEDED")).len(), 1);
    // given a call that the application drops
    let calls = backend.calls();
    let dropped = tokio::spawn({
        let channel = channel.clone();
        async move { call_once(&channel).await }
    });
    eventually(|| backend.calls() > calls).await;
    dropped.abort();
    let _ = dropped.await;
    assert_eq!(kept.values(&of(CALL, "CANCELLED")).len(), 1);
    assert_eq!(kept.values(&of(ATTEMPT, "CANCELLED")).len(), 1);
}

#[tokio::test]
async fn c260_messages_of_streams_are_counted() {
    let [backend] = backends().await;
    let (kept, _script, channel) = to(&backend).await;
    // given three messages of 2, 0 and 3 bytes in four frames
    let frames = [
        &b"\0\0\0\0\x02a"[..],
        b"b\0\0",
        b"\0\0\0",
        b"\0\0\0\0\x03cde",
    ];
    let frames = frames.map(|data| Ok::<_, Status>(Frame::data(Bytes::from_static(data))));
    let body = tonic::body::Body::new(StreamBody::new(tokio_stream::iter(frames)));
    let request = Request::post("/a.B/C").body(body).unwrap();
    let response = channel.clone().call(request).await.unwrap();
    response.into_body().collect().await.unwrap();
    assert_eq!(kept.values(&of(SENT, "OK")), [5.0]);
    assert_eq!(kept.values(&of(RECEIVED, "OK")), [5.0]);
}

#[tokio::test]
async fn c260_optional_labels_are_off_unless_wanted() {
    let [backend] = backends().await;
    let kept = RecordedMetrics::new(&["grpc.lb.locality", "grpc.lb.backend_service"]);
    let (script, channel) = recorded(builder(), &kept);
    script.set(config(ALL, vec![one(&backend)]));
    call_once(&channel).await.unwrap();
    let place =
        r#"grpc.lb.locality={region="eu", zone="", sub_zone=""} grpc.lb.backend_service=one"#;
    for name in [ATTEMPT, SENT, RECEIVED] {
        let series = format!("{} {place}", of(name, "OK"));
        assert_eq!(kept.values(&series).len(), 1, "{kept:?}");
    }
    // and calls and starts of attempts have none
    assert_eq!(kept.values(&of(CALL, "OK")).len(), 1);
    assert_eq!(kept.values(STARTED), [1.0]);
    // and a call that no endpoint got has its cluster
    let dropping = cluster("two", &[&[("eu", 1, &[backend.address()])]], 1_000_000);
    script.set(config(ALL, vec![dropping]));
    eventually(|| channel.status().revision == 2).await;
    call_once(&channel).await.unwrap_err();
    let series = format!(
        "{} grpc.lb.locality= grpc.lb.backend_service=two",
        of(ATTEMPT, "UNAVAILABLE")
    );
    assert_eq!(kept.values(&series).len(), 1, "{kept:?}");
}

const ALL_OPTIONAL: &[&str] = &[
    "grpc.lb.locality",
    "grpc.lb.backend_service",
    "grpc.disconnect_error",
    "grpc.security_level",
];
const PLACE: &str =
    r#"grpc.lb.backend_service=one grpc.lb.locality={region="eu", zone="", sub_zone=""}"#;

#[tokio::test]
async fn c260_connections_have_the_metrics_of_a94() {
    let [backend] = backends().await;
    let kept = RecordedMetrics::new(ALL_OPTIONAL);
    let (script, channel) = recorded(builder(), &kept);
    script.set(config(ALL, vec![one(&backend)]));
    ready(&channel, 1).await;
    let name = |metric: &str| format!("grpc.subchannel.{metric} grpc.target=xds:///svc {PLACE}");
    let open = format!(
        "grpc.subchannel.open_connections grpc.target=xds:///svc grpc.security_level=none {PLACE}"
    );
    let ended = |error: &str| {
        let error = format!("{} grpc.disconnect_error={error}", name("disconnections"));
        kept.values(&error)
    };
    assert_eq!(kept.values(&name("connection_attempts_succeeded")), [1.0]);
    assert_eq!(kept.values(&open), [1.0]);
    // when the server goes away in order, the port is closed and attempts fail
    backend.drain();
    eventually(|| ended("GOAWAY NO_ERROR") == [1.0]).await;
    assert_eq!(kept.values(&open), [0.0]);
    let failed = || kept.total(&name("connection_attempts_failed"));
    eventually(|| failed() >= 1.0).await;
    // when it is back
    backend.restart().await.unwrap();
    eventually(|| kept.values(&open) == [1.0]).await;
    assert_eq!(kept.values(&name("connection_attempts_succeeded")), [2.0]);
    // when the channel ends
    drop((script, channel));
    eventually(|| ended("subchannel shutdown") == [1.0]).await;
    assert_eq!(kept.values(&open), [0.0]);
}

#[tokio::test]
async fn c260_shared_connection_is_recorded_once() {
    let [backend] = backends().await;
    let pool = Pool::new();
    let kept = RecordedMetrics::new(&[]);
    let mut channels = Vec::new();
    for _ in 0..2 {
        let shared = builder().pool(pool.clone());
        let (script, channel) = recorded(shared, &kept);
        script.set(config(ALL, vec![one(&backend)]));
        ready(&channel, 1).await;
        channels.push((script, channel));
    }
    let target = "grpc.target=xds:///svc";
    let open = format!("grpc.subchannel.open_connections {target}");
    assert_eq!(kept.values(&open), [1.0]);
    // and the old metrics are those of each channel: only the first has made an attempt
    let succeeded = "grpc.lb.pick_first.connection_attempts_succeeded";
    assert_eq!(kept.values(&format!("{succeeded} {target}")), [1.0]);
}

#[tokio::test]
async fn c260_pick_first_has_the_metrics_of_a78() {
    let [backend] = backends().await;
    let (kept, _script, _channel) = to(&backend).await;
    let count = |metric: &str| {
        let name = format!("grpc.lb.pick_first.{metric} grpc.target=xds:///svc");
        kept.total(&name)
    };
    eventually(|| count("connection_attempts_succeeded") == 1.0).await;
    backend.kill();
    eventually(|| count("disconnections") == 1.0).await;
    eventually(|| count("connection_attempts_failed") >= 1.0).await;
    backend.restart().await.unwrap();
    eventually(|| count("connection_attempts_succeeded") == 2.0).await;
    assert_eq!(count("disconnections"), 1.0);
}

/// Ejects every endpoint that fails, with this chance and up to this share.
fn detection_with(enforcement: u32, max: u32) -> OutlierConfig {
    let mut config = detection(LONG);
    config.max_ejection_percent = max;
    if let Some(failures) = &mut config.failure_percentage {
        failures.enforcement_percentage = enforcement;
    }
    config
}

#[tokio::test]
async fn c260_ejections_have_the_metrics_of_a91() {
    let method = "grpc.lb.outlier_detection.detection_method=failure_percentage";
    let reason = "grpc.lb.outlier_detection.unenforced_reason";
    let enforced = format!("ejections_enforced grpc.target=xds:///svc {method}");
    let unenforced = format!("ejections_unenforced grpc.target=xds:///svc {method} {reason}");
    for (enforcement, max, series) in [
        (100, 100, format!("{enforced} grpc.lb.backend_service=one")),
        (
            0,
            100,
            format!("{unenforced}=enforcement_percentage grpc.lb.backend_service=one"),
        ),
        (
            100,
            1,
            format!("{unenforced}=max_ejection_overflow grpc.lb.backend_service=one"),
        ),
    ] {
        // given two endpoints that fail every call
        let [first, second] = backends().await;
        first.set_status(UNAVAILABLE);
        second.set_status(UNAVAILABLE);
        let kept = RecordedMetrics::new(&["grpc.lb.backend_service"]);
        let (script, channel) = recorded(builder(), &kept);
        let addresses = [first.address(), second.address()];
        let spec = cluster("one", &[&[("eu", 1, &addresses)]], 0);
        script.set(config(
            ALL,
            vec![spec.outlier(detection_with(enforcement, max))],
        ));
        ready(&channel, 2).await;
        let series = format!("grpc.lb.outlier_detection.{series}");
        let calls = async {
            while kept.total(&series) == 0.0 {
                let _ = call_once(&channel).await;
            }
        };
        let in_time = tokio::time::timeout(crate::support::SOON, calls).await;
        in_time.unwrap_or_else(|_| panic!("{series} not in {kept:?}"));
    }
}

/// Sends a report with application_utilization 1.0 and 100 requests per second at the end of each RPC.
fn report(backend: &EchoBackend) {
    let name = HeaderName::from_static("endpoint-load-metrics-bin");
    let value = HeaderValue::from_static("MQAAAAAAAFlASQAAAAAAAPA/");
    backend.set_trailers(HeaderMap::from_iter([(name, value)]));
}

#[tokio::test]
async fn c260_weights_have_the_metrics_of_a78() {
    let [a, b] = backends().await;
    let kept = RecordedMetrics::new(&["grpc.lb.locality", "grpc.lb.backend_service"]);
    let (script, channel) = recorded(builder(), &kept);
    let weighted = WeightedRoundRobinConfig {
        blackout_period: Duration::ZERO,
        weight_expiration_period: Duration::from_millis(300),
        weight_update_period: Duration::from_millis(100),
        ..WeightedRoundRobinConfig::default()
    };
    let policy = PolicyConfig::WeightedRoundRobin(Arc::new(weighted));
    let policy = PolicyConfig::WrrLocality(Arc::new(policy));
    let addresses = [a.address(), b.address()];
    let spec = cluster("one", &[&[("eu", 1, &addresses)]], 0).with_policy(policy);
    script.set(config(ALL, vec![spec]));
    ready(&channel, 2).await;
    let place = r#"grpc.target=xds:///svc grpc.lb.locality={region="eu", zone="", sub_zone=""} grpc.lb.backend_service=one"#;
    let name = |metric: &str| format!("grpc.lb.wrr.{metric} {place}");
    // given no report, every update falls back to round robin
    let total = |metric: &str| kept.total(&name(metric));
    eventually(|| total("rr_fallback") >= 1.0).await;
    eventually(|| total("endpoint_weight_not_yet_usable") >= 2.0).await;
    // when both endpoints report
    report(&a);
    report(&b);
    spread(&channel, 4).await;
    eventually(|| kept.values(&name("endpoint_weights")).contains(&100.0)).await;
    // when no report follows, the weights become stale
    eventually(|| total("endpoint_weight_stale") >= 1.0).await;
}
