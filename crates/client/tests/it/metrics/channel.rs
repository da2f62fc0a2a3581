//! Metrics of channels, through both recorders.

use std::sync::Arc;

use oxds_channel::testing::{EchoBackend, Script, cluster, config};
use oxds_channel::{Pool, XdsChannel};
use oxds_client::metrics::{
    INSTRUMENTS, InstrumentKind, OpenTelemetryRecorder, PrometheusRecorder, Recorder,
};
use prometheus_client::registry::Registry;

use super::meter::Collected;

/// Makes a call through a channel with this recorder.
async fn call_recorded(recorder: Arc<dyn Recorder>) {
    let backend = EchoBackend::start().await.unwrap();
    let builder = XdsChannel::builder("xds:///shop")
        .pool(Pool::new())
        .recorder(recorder);
    let (script, channel) = Script::channel(builder).unwrap();
    let shop = cluster("shop", &[&[("eu", 1, &[backend.address()])]], 0);
    script.set(config(&[("", &[(1, 0)])], vec![shop]));
    let call = oxds_channel::testing::Call::default();
    oxds_channel::testing::call(&channel, call).await.unwrap();
}

/// The rows of servers in gRFC A66.
fn rows_of_servers() -> [String; 4] {
    let of_server = |name: &str, kind: &str, labels: &str| {
        format!("grpc.server.call.{name} | {kind} | {labels} | ")
    };
    let ended = "grpc.method grpc.status";
    [
        of_server("started", "counter | {call}", "grpc.method"),
        of_server("duration", "histogram | s", ended),
        of_server(
            "sent_total_compressed_message_size",
            "histogram | By",
            ended,
        ),
        of_server(
            "rcvd_total_compressed_message_size",
            "histogram | By",
            ended,
        ),
    ]
}

/// Each row of the tables in gRFC A66, A78, A89, A91, A94 and A96.
#[test]
fn c260_names_kinds_units_and_labels_are_those_of_the_grfcs() {
    let of_channels = INSTRUMENTS.iter().filter(|one| {
        let name = one.name;
        name.starts_with("grpc.") && !name.starts_with("grpc.xds_client.")
    });
    let rows: Vec<_> = of_channels
        .map(|i| {
            let labels = (i.labels.join(" "), i.optional_labels.join(" "));
            let kind = match i.kind {
                InstrumentKind::Counter => "counter",
                InstrumentKind::UpDownCounter => "up-down counter",
                InstrumentKind::Histogram => "histogram",
                InstrumentKind::Gauge => "gauge",
            };
            format!(
                "{} | {kind} | {} | {} | {}",
                i.name, i.unit, labels.0, labels.1
            )
        })
        .collect();
    let place = "grpc.lb.locality grpc.lb.backend_service";
    let subchannel = "grpc.lb.backend_service grpc.lb.locality";
    let outlier = "grpc.lb.outlier_detection";
    let call = "grpc.method grpc.target";
    let rows_of_a66 = [
        format!("grpc.client.call.duration | histogram | s | {call} grpc.status | "),
        format!("grpc.client.attempt.started | counter | {{attempt}} | {call} | "),
        format!("grpc.client.attempt.duration | histogram | s | {call} grpc.status | {place}"),
        format!(
            "grpc.client.attempt.sent_total_compressed_message_size | histogram | By | {call} grpc.status | {place}"
        ),
        format!(
            "grpc.client.attempt.rcvd_total_compressed_message_size | histogram | By | {call} grpc.status | {place}"
        ),
        format!("grpc.client.call.retries | histogram | {{retry}} | {call} | "),
        format!(
            "grpc.client.call.transparent_retries | histogram | {{transparent_retry}} | {call} | "
        ),
        format!("grpc.client.call.retry_delay | histogram | s | {call} | "),
    ];
    let rows_of_lb = [
        format!("grpc.lb.wrr.rr_fallback | counter | {{update}} | grpc.target | {place}"),
        format!(
            "grpc.lb.wrr.endpoint_weight_not_yet_usable | counter | {{endpoint}} | grpc.target | {place}"
        ),
        format!(
            "grpc.lb.wrr.endpoint_weight_stale | counter | {{endpoint}} | grpc.target | {place}"
        ),
        format!("grpc.lb.wrr.endpoint_weights | histogram | {{weight}} | grpc.target | {place}"),
        "grpc.lb.pick_first.disconnections | counter | {disconnection} | grpc.target | ".to_owned(),
        "grpc.lb.pick_first.connection_attempts_succeeded | counter | {attempt} | grpc.target | "
            .to_owned(),
        "grpc.lb.pick_first.connection_attempts_failed | counter | {attempt} | grpc.target | "
            .to_owned(),
        format!(
            "grpc.subchannel.disconnections | counter | {{disconnection}} | grpc.target | {subchannel} grpc.disconnect_error"
        ),
        format!(
            "grpc.subchannel.connection_attempts_succeeded | counter | {{attempt}} | grpc.target | {subchannel}"
        ),
        format!(
            "grpc.subchannel.connection_attempts_failed | counter | {{attempt}} | grpc.target | {subchannel}"
        ),
        format!(
            "grpc.subchannel.open_connections | up-down counter | {{connection}} | grpc.target | grpc.security_level {subchannel}"
        ),
        format!(
            "{outlier}.ejections_enforced | counter | {{ejection}} | grpc.target {outlier}.detection_method | grpc.lb.backend_service"
        ),
        format!(
            "{outlier}.ejections_unenforced | counter | {{ejection}} | grpc.target {outlier}.detection_method {outlier}.unenforced_reason | grpc.lb.backend_service"
        ),
    ];
    let expected = [&rows_of_a66[..], &rows_of_lb[..], &rows_of_servers()[..]];
    assert_eq!(rows, expected.concat());
}

#[tokio::test]
async fn c260_prometheus_has_the_names_of_exporters() {
    let mut registry = Registry::default();
    let recorder =
        PrometheusRecorder::register(&mut registry).with_optional_labels(["grpc.lb.locality"]);
    call_recorded(Arc::new(recorder)).await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let labels = r#"grpc_method="other",grpc_target="xds:///shop""#;
    let locality = r#"grpc_lb_locality="{region=\"eu\", zone=\"\", sub_zone=\"\"}""#;
    for line in [
        format!("grpc_client_attempt_started_total{{{labels}}} 1"),
        format!(r#"grpc_client_call_duration_seconds_count{{{labels},grpc_status="OK"}} 1"#),
        format!(
            r#"grpc_client_attempt_sent_total_compressed_message_size_bytes_sum{{{labels},grpc_status="OK",{locality}}} 5.0"#
        ),
        format!(
            r#"grpc_client_attempt_duration_seconds_bucket{{le="100.0",{labels},grpc_status="OK",{locality}}} 1"#
        ),
        format!(r#"grpc_subchannel_open_connections{{grpc_target="xds:///shop",{locality}}} 1"#),
    ] {
        assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn c260_opentelemetry_has_boundaries_and_labels() {
    let meter = Collected::default();
    call_recorded(Arc::new(OpenTelemetryRecorder::new(&meter.meter()))).await;
    let labels = r#"grpc.method="other",grpc.target="xds:///shop""#;
    let started = format!("grpc.client.attempt.started{{{labels}}} 1");
    assert!(meter.lines().contains(&started), "{:?}", meter.lines());
    let open = r#"grpc.subchannel.open_connections{grpc.target="xds:///shop"} 1"#;
    assert!(
        meter.lines().iter().any(|line| line == open),
        "{:?}",
        meter.lines()
    );
    let histograms = meter.histograms();
    let duration =
        &histograms[&format!(r#"grpc.client.call.duration{{{labels},grpc.status="OK"}}"#)];
    assert_eq!((duration.0, duration.1.len()), (1, 41));
    let size = "grpc.client.attempt.sent_total_compressed_message_size";
    let size = &histograms[&format!(r#"{size}{{{labels},grpc.status="OK"}}"#)];
    assert_eq!((size.0, size.1.len()), (1, 14));
}

/// The page has a row for each metric, with its kind and unit.
#[test]
fn c260_page_lists_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    for instrument in INSTRUMENTS {
        let kind = match instrument.kind {
            InstrumentKind::Counter => "counter",
            InstrumentKind::UpDownCounter => "up-down counter",
            InstrumentKind::Histogram => "histogram",
            InstrumentKind::Gauge => "gauge",
        };
        let row = format!("| `{}` | {kind}, `{}` |", instrument.name, instrument.unit);
        assert!(page.contains(&row), "{row}");
        for label in instrument.labels.iter().chain(instrument.optional_labels) {
            assert!(page.contains(&format!("`{label}`")), "{label}");
        }
    }
}
