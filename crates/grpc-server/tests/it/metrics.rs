//! Metrics and channelz of a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use oxds_client::metrics::{Instrument, Recorder};
use oxds_grpc_server::ServingMode;
use oxds_testkit::SOON;
use tokio::time::timeout;

use crate::world::{World, default_chain, inline, only};

/// Sums of counters, and numbers and sums of the values of histograms.
#[derive(Debug, Default, Clone)]
struct Recorded(Arc<Mutex<BTreeMap<String, (u64, f64)>>>);

impl Recorded {
    fn write(&self, instrument: &Instrument, labels: &[&str], count: u64, value: f64) {
        let key = format!("{} {}", instrument.name, labels.join(" "));
        let mut all = self.0.lock().unwrap();
        let entry = all.entry(key).or_default();
        *entry = (entry.0 + count, entry.1 + value);
    }

    /// Waits for a series.
    async fn series(&self, key: &str, count: u64) -> f64 {
        let wait = async {
            loop {
                let found = self.0.lock().unwrap().get(key).copied();
                match found {
                    Some((found, value)) if found == count => return value,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        let waited = timeout(SOON, wait).await;
        waited.unwrap_or_else(|_| panic!("{key} {count}: {:?}", self.0))
    }
}

impl Recorder for Recorded {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        self.write(counter, labels, by, 0.0);
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        let value = i32::try_from(value).unwrap();
        self.write(gauge, labels, 1, f64::from(value));
    }

    fn end(&self, _: &'static Instrument, _: &[&str]) {}

    fn record(&self, histogram: &'static Instrument, labels: &[&str], value: f64) {
        self.write(histogram, labels, 1, value);
    }
}

const STARTED: &str = "grpc.server.call.started";
const DURATION: &str = "grpc.server.call.duration";
const SENT: &str = "grpc.server.call.sent_total_compressed_message_size";
const RECEIVED: &str = "grpc.server.call.rcvd_total_compressed_message_size";

#[tokio::test]
async fn c260_calls_are_recorded_by_method_and_status() {
    let recorded = Recorded::default();
    let recorder = Arc::new(recorded.clone());
    let world = World::serving_with(|builder| builder.recorder(recorder)).await;
    let mut client = world.client().await;
    for _ in 0..3 {
        client.call("Call").await.unwrap();
    }
    recorded
        .series(&format!("{STARTED} echo.Echo/Call"), 3)
        .await;
    recorded
        .series(&format!("{DURATION} echo.Echo/Call OK"), 3)
        .await;
    for sizes in [SENT, RECEIVED] {
        let total = recorded
            .series(&format!("{sizes} echo.Echo/Call OK"), 3)
            .await;
        assert!((total - 15.0).abs() < 0.1, "{sizes}: {total}");
    }
    // Methods and services that do not exist share a name.
    for path in ["/echo.Echo/None", "/none.None/Call"] {
        client.call_at("svc", path).await.unwrap_err();
    }
    recorded.series(&format!("{STARTED} other"), 2).await;
    recorded
        .series(&format!("{DURATION} other UNIMPLEMENTED"), 2)
        .await;
    // A call that is dropped was cancelled.
    let held = client.start("svc", "/echo.Echo/Hold", &[]).await.unwrap();
    world.echo.is_held().await;
    drop(held);
    recorded
        .series(&format!("{DURATION} other CANCELLED"), 1)
        .await;
}

#[tokio::test]
async fn c260_calls_without_route_are_recorded_as_other() {
    let recorded = Recorded::default();
    let recorder = Arc::new(recorded.clone());
    let mut world = World::start_with(|builder, _| builder.recorder(recorder)).await;
    world.send_listener(&default_chain(&inline(&only("Peer"))));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    client.call("Call").await.unwrap_err();
    client.call("Peer").await.unwrap();
    recorded
        .series(&format!("{DURATION} other UNAVAILABLE"), 1)
        .await;
    recorded
        .series(&format!("{DURATION} echo.Echo/Peer OK"), 1)
        .await;
}

#[tokio::test]
async fn c260_client_of_servers_has_its_own_target() {
    let recorded = Recorded::default();
    let control_plane = oxds_testkit::ControlPlane::start().await.unwrap();
    let pool = crate::world::pool(&control_plane).with_recorder(Arc::new(recorded.clone()));
    let server = oxds_grpc_server::XdsServer::builder().clients(pool);
    let server = server.build().unwrap();
    let bound = server.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut stream = control_plane.next_stream().await.unwrap();
    let request = stream.request().await.unwrap();
    assert_eq!(
        request.resource_names,
        [format!("server/{}", bound.local_addr())]
    );
    stream.send_headers();
    stream.respond(&oxds_types::ResourceType::LISTENER, "1", Vec::new());
    let uri = control_plane.address();
    let connected = format!("grpc.xds_client.connected #server {uri}");
    let wait = async {
        while !recorded.0.lock().unwrap().contains_key(&connected) {
            tokio::task::yield_now().await;
        }
    };
    let waited = timeout(SOON, wait).await;
    assert!(waited.is_ok(), "{:?}", recorded.0);
}
