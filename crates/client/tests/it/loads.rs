//! Load reports of the client (LRS), over real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use envoy_types::pb::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};
use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;
use oxds_client::bootstrap::TransportPolicy;
use oxds_client::load::{ClusterKey, ClusterLoad, LocalityLoad, MetricSelection};
use oxds_client::{Bootstrap, ClientPool, Update, XdsClient};
use oxds_core::ads::ServerId;
use oxds_core::resource::{Cluster, LocalityId};
use oxds_testkit::resources::{cluster, reporting_cluster};
use oxds_testkit::{AdsStream, ControlPlane, LoadStream};
use oxds_types::ResourceType;
use oxds_types::discovery::{Any, Duration as ProtoDuration};
use tokio::time::Instant;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::authorities::entry;
use crate::log::listen;
use crate::scripted::{FIRST_BACKOFF, next, start, value};

const LRS_V2: &str = "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats";
const LRS_V3: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

fn everything() -> LoadStatsResponse {
    LoadStatsResponse {
        send_all_clusters: true,
        load_reporting_interval: Some(ProtoDuration {
            seconds: 1,
            nanos: 0,
        }),
        ..LoadStatsResponse::default()
    }
}

/// Load counters of a cluster, for the client's first server.
fn load(client: &XdsClient, name: &str) -> ClusterLoad {
    let (key, metrics) = (ClusterKey::new(name, ""), MetricSelection::default());
    let load = client
        .load_reporter()
        .cluster(ServerId::default(), key, metrics);
    load.unwrap()
}

fn place(load: &ClusterLoad) -> LocalityLoad {
    load.locality(&LocalityId {
        region: "eu".into(),
        ..LocalityId::default()
    })
}

/// Returns the next stream, after its first request and a response that asks for all clusters.
async fn reporting(server: &ControlPlane) -> LoadStream {
    let mut stream = server.next_load_stream().await.unwrap();
    let first = stream.request().await.unwrap();
    assert!(first.node.is_some() && first.cluster_stats.is_empty());
    stream.send(everything());
    stream
}

/// Returns the next non-empty statistics of a cluster.
async fn report(stream: &mut LoadStream, cluster: &str) -> ClusterStats {
    loop {
        let request = stream.request().await.unwrap();
        assert_eq!(request.node, None);
        let mut stats = request.cluster_stats.into_iter();
        let found = stats.find(|stats| {
            stats.cluster_name == cluster && !stats.upstream_locality_stats.is_empty()
        });
        if let Some(found) = found {
            return found;
        }
    }
}

/// Issued, succeeded, failed, in progress.
fn counts(stats: &UpstreamLocalityStats) -> [u64; 4] {
    [
        stats.total_issued_requests,
        stats.total_successful_requests,
        stats.total_error_requests,
        stats.total_requests_in_progress,
    ]
}

/// Returns an ADS stream on which these clusters were requested, sent and acknowledged.
async fn serve(server: &ControlPlane, clusters: Vec<Any>) -> AdsStream {
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", clusters);
    stream.request().await.unwrap();
    stream
}

/// given a cluster that reports its load and one that does not / when both are used / then one stream reports the
/// first; when its last use ends / then the rest is reported, and stream and connection end; those of ADS stay.
#[tokio::test]
async fn c129_c130_c136_c142_load_goes_to_the_sending_server() {
    let (server, client) = start().await;
    let mut watches = ["a", "q"].map(|name| client.watch::<Cluster>(name));
    let clusters = vec![reporting_cluster("a", "a-eds"), cluster("q", "")];
    let _ads = serve(&server, clusters).await;
    let (a, q) = (value(&mut watches[0]).await, value(&mut watches[1]).await);
    assert!(client.load_reporter().of(&q).is_none());
    server.has_connections(1).await.unwrap();

    let load = client.load_reporter().of(&a).unwrap();
    let mut stream = reporting(&server).await;
    assert_eq!(stream.path(), LRS_V3);
    let first = stream.requests()[0].node.clone().unwrap();
    let feature = "envoy.lrs.supports_send_all_clusters";
    assert!(first.client_features.iter().any(|known| known == feature));

    let place = place(&load);
    let (good, bad, open) = (place.begin(), place.begin(), place.begin());
    good.succeed();
    drop(bad);
    let stats = report(&mut stream, "a").await;
    assert_eq!(stats.cluster_service_name, "a-eds");
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [3, 1, 1, 1]);

    // A call in progress is a use.
    drop((load, place));
    let stats = report(&mut stream, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [0, 0, 0, 1]);
    open.succeed();
    let stats = report(&mut stream, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [0, 1, 0, 0]);
    stream.ended().await.unwrap();
    drop(stream);
    server.has_connections(1).await.unwrap();
}

/// given two clusters of one control plane and one of another / then each control plane gets one stream; two users of
/// one cluster share one row.
#[tokio::test]
async fn c130_c137_one_stream_for_each_control_plane() {
    let (first, second) = (
        ControlPlane::start().await.unwrap(),
        ControlPlane::start().await.unwrap(),
    );
    let client = client_of(&[&first, &second]);
    let mut watch = client.watch::<Cluster>("x");
    first.kill();
    let _ads = serve(&second, vec![reporting_cluster("x", "")]).await;
    let x = loop {
        if let Update::Changed(Ok(x)) = next(&mut watch).await {
            break x;
        }
    };
    first.restart().await.unwrap();
    let far = client.load_reporter().of(&x).unwrap();
    let (a, again, b) = (load(&client, "a"), load(&client, "a"), load(&client, "b"));
    let mut near = reporting(&first).await;
    let mut other = reporting(&second).await;
    for load in [&a, &again, &b, &far] {
        place(load).begin().succeed();
    }
    let stats = report(&mut near, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [2, 2, 0, 0]);
    let stats = report(&mut other, "x").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [1, 1, 0, 0]);
}

fn client_of(servers: &[&ControlPlane]) -> XdsClient {
    let entries: Vec<String> = servers.iter().map(|server| entry(server, "")).collect();
    let json = format!(
        r#"{{"xds_servers":[{}],"node":{{"id":"scripted"}}}}"#,
        entries.join(",")
    );
    ClientPool::new(Bootstrap::from_json(&json).unwrap()).client("test")
}

/// given a stream that breaks / when calls continue and the stream returns a second later / then the next report
/// includes them, and its interval covers the time.
#[tokio::test]
async fn c139_load_without_a_stream_is_in_the_next_report() {
    let (server, client) = start().await;
    let load = load(&client, "a");
    let stream = reporting(&server).await;
    let broken = Instant::now();
    drop(stream);
    for _ in 0..7 {
        place(&load).begin().succeed();
    }
    let mut stream = reporting(&server).await;
    assert!(broken.elapsed() >= FIRST_BACKOFF);
    let stats = report(&mut stream, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [7, 7, 0, 0]);
    assert!(stats.load_report_interval.unwrap().seconds >= 1);
}

/// given a control plane without LRS / when a cluster is used / then LRS is tried again after a backoff; watches
/// continue.
#[tokio::test]
async fn c141_control_plane_without_lrs_affects_nothing_else() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("a");
    let mut ads = serve(&server, vec![reporting_cluster("a", "")]).await;
    let load = client
        .load_reporter()
        .of(&*value(&mut watch).await)
        .unwrap();
    let stream = server.next_load_stream().await.unwrap();
    let refused = Instant::now();
    stream.end(tonic::Code::Unimplemented, "no LRS");
    place(&load).begin().succeed();
    ads.respond(
        &ResourceType::CLUSTER,
        "2",
        vec![reporting_cluster("a", "new")],
    );
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
    let _again = server.next_load_stream().await.unwrap();
    assert!(refused.elapsed() >= FIRST_BACKOFF);
}

/// given a client whose last handles are dropped while its stream is open / then the final report arrives; given a
/// server that never ends its side / then the socket closes nevertheless.
#[tokio::test]
async fn c142_the_final_report_has_a_short_deadline() {
    let (server, client) = start().await;
    let load = load(&client, "a");
    let mut stream = reporting(&server).await;
    // The load-reporting request has arrived when the first report arrives.
    place(&load).begin().succeed();
    report(&mut stream, "a").await;
    place(&load).begin().succeed();
    let gone = Instant::now();
    drop((client, load));
    let stats = report(&mut stream, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [1, 1, 0, 0]);
    server.has_connections(0).await.unwrap();
    assert!(gone.elapsed() < Duration::from_secs(5));
    stream.ended().await.unwrap();
}

/// given a client on its fallback server / when it uses a cluster / then the load goes to the fallback; when the first
/// server returns / then the cluster comes from it again, and its load goes there.
#[tokio::test]
async fn c144_load_follows_the_control_plane_that_serves() {
    let (first, second) = (
        ControlPlane::start().await.unwrap(),
        ControlPlane::start().await.unwrap(),
    );
    first.kill();
    let client = client_of(&[&first, &second]);
    let mut watch = client.watch::<Cluster>("a");
    let _ads = serve(&second, vec![reporting_cluster("a", "")]).await;
    let a = value(&mut watch).await;
    let mut load = client.load_reporter().of(&a).unwrap();
    let mut stream = reporting(&second).await;
    place(&load).begin().succeed();
    report(&mut stream, "a").await;

    first.restart().await.unwrap();
    let _ads = serve(&first, vec![reporting_cluster("a", "")]).await;
    let moved = value(&mut watch).await;
    assert_ne!(moved.lrs_server, a.lrs_server);
    load = client.load_reporter().of(&moved).unwrap();
    stream.ended().await.unwrap();
    let mut stream = reporting(&first).await;
    place(&load).begin().succeed();
    let stats = report(&mut stream, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [1, 1, 0, 0]);
}

/// A cluster without localities is reported under the empty locality.
#[tokio::test]
async fn c145_a_cluster_without_localities_has_the_empty_one() {
    let (server, client) = start().await;
    let load = load(&client, "dns");
    let mut stream = reporting(&server).await;
    load.locality(&LocalityId::default()).begin().succeed();
    load.drop_uncategorized();
    let stats = report(&mut stream, "dns").await;
    let place = &stats.upstream_locality_stats[0];
    assert_eq!(place.locality, Some(Default::default()));
    assert_eq!(counts(place), [1, 1, 0, 0]);
    assert_eq!(stats.total_dropped_requests, 1);
}

/// given servers that speak v2 and v3 / then each gets load reports by the service of its version.
#[tokio::test]
async fn c60_load_is_reported_in_the_version_of_the_server() {
    for (features, policy, path) in [
        ("", TransportPolicy::V3Only, LRS_V3),
        (r#""xds_v3""#, TransportPolicy::Auto, LRS_V3),
        ("", TransportPolicy::Auto, LRS_V2),
        (r#""xds_v3""#, TransportPolicy::V2Only, LRS_V2),
    ] {
        let server = ControlPlane::start().await.unwrap();
        let entry = entry(&server, features);
        let json = format!(r#"{{"xds_servers":[{entry}],"node":{{"id":"scripted"}}}}"#);
        let bootstrap = Bootstrap::from_json(&json)
            .unwrap()
            .with_transport(|_| policy);
        let client = ClientPool::new(bootstrap).client("test");
        let load = load(&client, "a");
        let mut stream = reporting(&server).await;
        assert_eq!(stream.path(), path);
        place(&load).begin().succeed();
        report(&mut stream, "a").await;
    }
}

/// Counters of one locality that threads share lose no count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c136_calls_of_many_tasks_are_all_counted() {
    const EACH: u64 = 5_000;
    let (server, client) = start().await;
    let load = load(&client, "a");
    let mut stream = reporting(&server).await;
    let place = Arc::new(place(&load));
    let tasks = (0..4).map(|_| {
        let place = Arc::clone(&place);
        tokio::spawn(async move {
            for call in 0..EACH {
                let began = place.begin();
                if call % 2 == 0 {
                    began.succeed();
                }
                tokio::task::yield_now().await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    drop((load, place));
    let mut sums = [0; 4];
    while let Ok(request) = stream.request().await {
        let places = request
            .cluster_stats
            .iter()
            .flat_map(|stats| &stats.upstream_locality_stats);
        for place in places {
            let counts = counts(place);
            (0..3).for_each(|index| sums[index] += counts[index]);
        }
    }
    assert_eq!(sums, [4 * EACH, 2 * EACH, 2 * EACH, 0]);
}

/// given a watch and a load report / then both streams use one connection, and so do their retries; it closes with the
/// last of them.
#[tokio::test]
async fn ads_lrs_and_retries_share_one_connection() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut ads = server.next_stream().await.unwrap();
    let load = load(&client, "a");
    let lrs = reporting(&server).await;
    ads.request().await.unwrap();
    ads.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    value(&mut watch).await;
    // when the server ends both streams, and the client opens them again
    ads.end(tonic::Code::Unavailable, "restarting");
    lrs.end(tonic::Code::Unavailable, "restarting");
    let mut ads = server.next_stream().await.unwrap();
    ads.request().await.unwrap();
    let mut lrs = reporting(&server).await;
    assert_eq!(server.accepted(), 1);
    // when the load is no longer reported, the connection stays for the watch
    drop(load);
    lrs.ended().await.unwrap();
    assert_eq!(server.connections(), 1);
    drop((client, watch));
    ads.ended().await.unwrap();
    server.has_connections(0).await.unwrap();
    assert_eq!(server.accepted(), 1);
}

/// given a stream that waits for its retry / when its last watch ends / then the connection closes.
#[tokio::test]
async fn connection_closes_if_nothing_waits_for_the_retry() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let ads = server.next_stream().await.unwrap();
    ads.end(tonic::Code::Unavailable, "restarting");
    let Some(Update::Changed(Err(_))) = watch.next().await else {
        panic!("no error");
    };
    assert_eq!(server.connections(), 1);
    drop(watch);
    server.has_connections(0).await.unwrap();
}

/// A subscriber that panics at the first response.
#[derive(Clone, Debug, Default)]
struct PanicsOnce(Arc<AtomicBool>);

impl Subscriber for PanicsOnce {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "oxds::lrs"
    }

    fn event(&self, event: &Event<'_>) {
        let is_response = event.metadata().fields().field("response").is_some();
        let is_first = is_response && !self.0.swap(true, Ordering::Relaxed);
        assert!(!is_first, "the subscriber is broken");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// given an application's subscriber that panics in the reporter's task / when the first response comes / then the task
/// starts again: counts from before are reported on a new stream, which ends as always.
#[tokio::test]
async fn load_reporter_starts_again_after_a_panic() {
    let _listening = listen(PanicsOnce::default());
    let (server, client) = start().await;
    let load = load(&client, "a");
    let place = place(&load);
    place.begin().succeed();
    let mut stream = reporting(&server).await;
    stream.ended().await.unwrap();
    let mut stream = reporting(&server).await;
    let stats = report(&mut stream, "a").await;
    assert_eq!(counts(&stats.upstream_locality_stats[0]), [1, 1, 0, 0]);
    drop((load, place));
    stream.ended().await.unwrap();
}
