//! Metrics of clients (gRFC A78) and channels, as the Prometheus and OpenTelemetry recorders receive them.

mod channel;
mod meter;

use std::sync::Arc;
use std::time::Duration;

use oxds_client::metrics::{
    INSTRUMENTS, Instrument, InstrumentKind, OpenTelemetryRecorder, PrometheusRecorder, Recorder,
};
use oxds_client::{Bootstrap, ClientPool, WatchErrorReason};
use oxds_core::resource::{Assignment, Cluster};
use oxds_testkit::resources::{cluster, static_cluster};
use oxds_testkit::{ControlPlane, SOON};
use oxds_types::ResourceType;
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};

use crate::authorities::entry;
use crate::scripted::{ambient, error, value};
use meter::Collected;

const TARGET: &str = "xds:///shop";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const ASSIGNMENT: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

/// Forwards each measurement to both recorders.
#[derive(Debug)]
struct Both(PrometheusRecorder, OpenTelemetryRecorder);

impl Recorder for Both {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        self.0.add(counter, labels, by);
        self.1.add(counter, labels, by);
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        self.0.set(gauge, labels, value);
        self.1.set(gauge, labels, value);
    }

    fn end(&self, gauge: &'static Instrument, labels: &[&str]) {
        self.0.end(gauge, labels);
        self.1.end(gauge, labels);
    }
}

/// Recorded measurements, in both forms.
struct Recorded {
    registry: Registry,
    meter: Collected,
}

impl Recorded {
    /// Lines as `name{key="value",…} number`, with dotted names; both recorders must agree.
    fn lines(&self) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut prometheus: Vec<String> = lines.map(str::to_owned).collect();
        prometheus.sort();
        let dotted = self.meter.lines();
        let without_dots = |line: &String| {
            let (name, rest) = line.split_once('{').unwrap();
            let counter = INSTRUMENTS
                .iter()
                .any(|i| i.name == name && i.kind == InstrumentKind::Counter);
            let total = if counter { "_total" } else { "" };
            let keys = rest.replace("grpc.xds.", "grpc_xds_");
            let keys = keys.replace("grpc.target", "grpc_target");
            format!("{}{total}{{{keys}", name.replace('.', "_"))
        };
        let mut same: Vec<String> = dotted.iter().map(without_dots).collect();
        same.sort();
        assert_eq!(prometheus, same);
        dotted
    }

    /// Waits until the lines are these: clients record on tasks of their own.
    async fn are(&self, wanted: &[String]) {
        let mut wanted = wanted.to_vec();
        wanted.sort();
        let wait = async {
            while self.lines() != wanted {
                sleep(Duration::from_millis(2)).await;
            }
        };
        if timeout(SOON, wait).await.is_err() {
            assert_eq!(self.lines(), wanted);
        }
    }
}

fn recorded(servers: &[&ControlPlane]) -> (ClientPool, Recorded) {
    let entries: Vec<String> = servers.iter().map(|server| entry(server, "")).collect();
    let authorities = r#""authorities":{"east":{}}"#;
    let json = format!(r#"{{"xds_servers":[{}],{authorities}}}"#, entries.join(","));
    let (mut registry, meter) = (Registry::default(), Collected::default());
    let prometheus = PrometheusRecorder::register(&mut registry);
    let both = Both(prometheus, OpenTelemetryRecorder::new(&meter.meter()));
    let pool = ClientPool::new(Bootstrap::from_json(&json).unwrap());
    (
        pool.with_recorder(Arc::new(both)),
        Recorded { registry, meter },
    )
}

fn of_server(name: &str, server: &ControlPlane, value: i64) -> String {
    let uri = server.address();
    format!(r#"grpc.xds_client.{name}{{grpc.target="{TARGET}",grpc.xds.server="{uri}"}} {value}"#)
}

fn updates(name: &str, server: &ControlPlane, value: i64) -> String {
    let uri = server.address();
    format!(
        r#"grpc.xds_client.resource_updates_{name}{{grpc.target="{TARGET}",grpc.xds.server="{uri}",grpc.xds.resource_type="{CLUSTER}"}} {value}"#
    )
}

fn resources(authority: &str, state: &str, resource_type: &str, value: i64) -> String {
    format!(
        r#"grpc.xds_client.resources{{grpc.target="{TARGET}",grpc.xds.authority="{authority}",grpc.xds.cache_state="{state}",grpc.xds.resource_type="{resource_type}"}} {value}"#
    )
}

/// Each row of the table in gRFC A78.
#[test]
fn c168_names_types_units_and_labels_are_those_of_a78() {
    // The other instruments are those of channels, and ours.
    let of_grpc = INSTRUMENTS
        .iter()
        .filter(|one| one.name.starts_with("grpc.xds_client."));
    let rows: Vec<_> = of_grpc
        .map(|i| (i.name, i.kind, i.unit, i.labels.join(", ")))
        .collect();
    let (counter, gauge) = (InstrumentKind::Counter, InstrumentKind::Gauge);
    let server = "grpc.target, grpc.xds.server".to_owned();
    let update = format!("{server}, grpc.xds.resource_type");
    let resource = "grpc.target, grpc.xds.authority, grpc.xds.cache_state, grpc.xds.resource_type";
    assert_eq!(
        rows,
        [
            ("grpc.xds_client.connected", gauge, "{bool}", server.clone()),
            (
                "grpc.xds_client.server_failure",
                counter,
                "{failure}",
                server
            ),
            (
                "grpc.xds_client.resource_updates_valid",
                counter,
                "{resource}",
                update.clone()
            ),
            (
                "grpc.xds_client.resource_updates_invalid",
                counter,
                "{resource}",
                update
            ),
            (
                "grpc.xds_client.resources",
                gauge,
                "{resource}",
                resource.to_owned()
            ),
        ]
    );
    let meter = Collected::default();
    drop(OpenTelemetryRecorder::new(&meter.meter()));
    let made: Vec<_> = INSTRUMENTS
        .iter()
        .map(|i| (i.name.to_owned(), i.unit.to_owned()))
        .collect();
    assert_eq!(meter.made(), made, "and so it is made in a meter");
}

/// given two servers, the first dead / then the first counts one failure and is not connected, however often it is
/// tried, and the second is connected; when the first responds again / then it is connected, and the second's gauge
/// ends; when the client ends / then no gauge is left.
#[tokio::test]
async fn c168_failures_and_connections_are_counted_by_server() {
    let first = ControlPlane::start().await.unwrap();
    let second = ControlPlane::start().await.unwrap();
    first.kill();
    let (pool, recorded) = recorded(&[&first, &second]);
    assert_eq!(recorded.lines(), Vec::<String>::new());
    let client = pool.client(TARGET);
    let mut watch = client.watch::<Cluster>("c");
    let mut fallback = second.next_stream().await.unwrap();
    fallback.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    value(&mut watch).await;
    let held = resources("#old", "acked", CLUSTER, 1);
    let counted = [
        of_server("server_failure", &first, 1),
        updates("valid", &second, 1),
        updates("invalid", &second, 0),
    ];
    let gauges = [
        of_server("connected", &first, 0),
        of_server("connected", &second, 1),
        held.clone(),
    ];
    recorded.are(&[&counted[..], &gauges[..]].concat()).await;

    first.restart().await.unwrap();
    let mut stream = first.next_stream().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "other")]);
    value(&mut watch).await;
    let more = [updates("valid", &first, 1), updates("invalid", &first, 0)];
    let counted = [&counted[..], &more[..]].concat();
    let gauges = [of_server("connected", &first, 1), held];
    recorded.are(&[&counted[..], &gauges[..]].concat()).await;

    drop((client, watch));
    recorded.are(&counted).await;
}

/// given a wildcard watch of clusters / when it ends / then the members are not counted any more, and resources watched
/// by name still are.
#[tokio::test]
async fn c168_members_of_a_watched_collection_are_counted() {
    let server = ControlPlane::start().await.unwrap();
    let (pool, recorded) = recorded(&[&server]);
    let client = pool.client(TARGET);
    let (all, mut named) = (
        client.watch_all::<Cluster>("*"),
        client.watch::<Cluster>("a"),
    );
    let mut stream = server.next_stream().await.unwrap();
    let both = ["a", "b"].map(|name| cluster(name, "e"));
    stream.respond(&ResourceType::CLUSTER, "1", both.to_vec());
    value(&mut named).await;
    let with = |held| {
        [
            of_server("connected", &server, 1),
            updates("valid", &server, 2),
            updates("invalid", &server, 0),
            resources("#old", "acked", CLUSTER, held),
        ]
    };
    recorded.are(&with(2)).await;
    drop(all);
    recorded.are(&with(1)).await;
}

/// given resources in each state / then they are counted by state, authority and type, and updates by validity,
/// unchanged ones included; when their watches end / then they are not counted any more.
#[tokio::test]
async fn c168_resources_by_state_and_updates_by_validity() {
    let server = ControlPlane::start().await.unwrap();
    let (pool, recorded) = recorded(&[&server]);
    let client = pool.client(TARGET);
    let of_east = format!("xdstp://east/{CLUSTER}/x");
    let names = ["good", "bad", "spoilt", "gone", of_east.as_str()];
    let [mut good, mut bad, mut spoilt, mut gone, mut east] =
        names.map(|name| client.watch::<Cluster>(name));
    let open = client.watch::<Assignment>("open");
    let mut stream = server.next_stream().await.unwrap();
    let all = |bad| {
        vec![
            cluster("good", "e"),
            static_cluster("bad"),
            bad,
            cluster(&of_east, "e"),
        ]
    };
    let mut first = all(cluster("spoilt", "e"));
    first.push(cluster("gone", "e"));
    stream.respond(&ResourceType::CLUSTER, "1", first);
    for watch in [&mut good, &mut spoilt, &mut gone, &mut east] {
        value(watch).await;
    }
    error(&mut bad, WatchErrorReason::Invalid).await;
    stream.respond(&ResourceType::CLUSTER, "2", all(static_cluster("spoilt")));
    error(&mut gone, WatchErrorReason::DoesNotExist).await;
    ambient(&mut spoilt, WatchErrorReason::Invalid).await;
    let counted = [updates("valid", &server, 6), updates("invalid", &server, 3)];
    let gauges = [
        of_server("connected", &server, 1),
        resources("#old", "acked", CLUSTER, 1),
        resources("#old", "nacked", CLUSTER, 1),
        resources("#old", "nacked_but_cached", CLUSTER, 1),
        resources("#old", "does_not_exist", CLUSTER, 1),
        resources("#old", "requested", ASSIGNMENT, 1),
        resources("east", "acked", CLUSTER, 1),
    ];
    recorded.are(&[&counted[..], &gauges[..]].concat()).await;

    drop((bad, spoilt, gone, east, open));
    let gauges = [
        of_server("connected", &server, 1),
        resources("#old", "acked", CLUSTER, 1),
    ];
    recorded.are(&[&counted[..], &gauges[..]].concat()).await;
}
