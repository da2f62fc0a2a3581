//! Load of a channel: from a folder of YAML to the counts at the control plane.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use oxds_channel::XdsChannel;
use oxds_channel::testing::{Call, EchoBackend, call};
use oxds_server::{ClusterLoad, Counts, DirStore, LoadReports, Server, dir};
use tempfile::TempDir;
use tonic::Code;

use crate::support::{Place, SOON, Yaml, backends, call_once, channel_by, ready};

/// `oxds-server` over a folder. It asks for a report every second.
struct ControlPlane {
    address: SocketAddr,
    reports: LoadReports,
    _folder: TempDir,
}

impl ControlPlane {
    async fn start(yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("all.yaml"), yaml).unwrap();
        let reports = LoadReports::every(Duration::from_secs(1));
        let server = Server::builder()
            .grpc((std::net::Ipv4Addr::LOCALHOST, 0).into())
            .store(DirStore::open(folder.path(), dir::Options::default()).unwrap())
            .load_reports(reports.clone())
            .bind()
            .await
            .unwrap();
        let address = server.grpc_addr();
        tokio::spawn(server.run(std::future::pending()));
        Self {
            address,
            reports,
            _folder: folder,
        }
    }

    /// Returns the reported load once it satisfies the condition.
    async fn reported(&self, wanted: impl Fn(&ClusterLoad) -> bool) -> ClusterLoad {
        let begun = tokio::time::Instant::now();
        loop {
            let loads = self.reports.loads();
            if let Some(load) = loads.iter().find(|load| wanted(load)) {
                return load.clone();
            }
            assert!(begun.elapsed() < SOON, "{loads:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The service with one cluster that reports its load, and further fields of the cluster.
fn reporting(fields: &str, drop_percent: u32, places: &[Place<'_>]) -> String {
    let yaml = Yaml::default().service(&[("{ prefix: \"\" }", "{ cluster: a }")]);
    let yaml = yaml.cluster_dropping("a", drop_percent, places);
    yaml.as_str().replace(
        "\nname: a\n",
        &format!("\nname: a\nlrs_server: {{ self: {{}} }}\n{fields}"),
    )
}

fn at(backend: &EchoBackend) -> [(SocketAddr, &'static str); 1] {
    [(backend.address(), "HEALTHY")]
}

async fn fails(channel: &XdsChannel, code: Code) {
    assert_eq!(call_once(channel).await.unwrap_err().code(), code);
}

/// given two localities / when 30 calls succeed, 4 fail, one is cancelled and one is in progress / then the control
/// plane has counted exactly these, by locality; when the last call ends / then it is counted although the channel is
/// gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c129_c136_c142_calls_are_reported_as_they_ended() {
    let [here, there] = backends().await;
    let places: [Place<'_>; 2] = [("here", 1, 0, &at(&here)), ("there", 1, 0, &at(&there))];
    let control_plane = ControlPlane::start(&reporting("", 0, &places)).await;
    let channel = channel_by(control_plane.address);
    call_once(&channel).await.unwrap();
    ready(&channel, 2).await;
    for _ in 0..29 {
        call_once(&channel).await.unwrap();
    }
    for backend in [&here, &there] {
        backend.set_status(13);
    }
    for _ in 0..4 {
        fails(&channel, Code::Internal).await;
    }
    for backend in [&here, &there] {
        backend.set_status(0);
        backend.set_delay(Duration::from_secs(2));
    }
    let given_up = tokio::time::timeout(Duration::from_millis(50), call_once(&channel));
    assert!(given_up.await.is_err());
    let last = tokio::spawn(async move { call_once(&channel).await });

    let sum = |load: &ClusterLoad| {
        let mut sum = Counts::default();
        for place in &load.localities {
            sum.issued += place.requests.issued;
            sum.succeeded += place.requests.succeeded;
            sum.errors += place.requests.errors;
        }
        sum
    };
    let expected = |issued, succeeded| {
        let mut expected = Counts::default();
        expected.issued = issued;
        expected.succeeded = succeeded;
        expected.errors = 5;
        expected
    };
    let load = control_plane
        .reported(|load| sum(load) == expected(36, 30))
        .await;
    assert_eq!(
        (&*load.node, &*load.cluster, &*load.service),
        ("test-node", "a", "")
    );
    let under_way: u64 = load.localities.iter().map(|place| place.in_progress).sum();
    assert_eq!(under_way, 1);
    for (place, backend) in load.localities.iter().zip([&here, &there]) {
        assert_eq!(
            place.requests.issued,
            backend.calls(),
            "{:?}",
            place.locality
        );
    }
    last.await.unwrap().unwrap();
    let load = control_plane
        .reported(|load| sum(load) == expected(36, 31))
        .await;
    assert!(load.localities.iter().all(|place| place.in_progress == 0));
}

/// given a cluster that drops all calls / then the report has the drops by category, and no calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c138_dropped_calls_are_reported_by_category() {
    let [backend] = backends().await;
    let yaml = reporting("", 100, &[("here", 1, 0, &at(&backend))]);
    let control_plane = ControlPlane::start(&yaml).await;
    let channel = channel_by(control_plane.address);
    for _ in 0..12 {
        fails(&channel, Code::Unavailable).await;
    }
    let load = control_plane.reported(|load| load.dropped == 12).await;
    assert_eq!(load.drops["shed"], 12);
    assert!(load.localities.is_empty(), "{load:?}");
}

/// given a backend that sends ORCA metrics / then the metrics that the cluster selects are reported, with their prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c143_orca_metrics_of_backends_are_reported() {
    let [backend] = backends().await;
    // cpu_utilization 0.5, named_metrics { queue: 3 }
    let said = HeaderValue::from_static("CQAAAAAAAOA/QhAKBXF1ZXVlEQAAAAAAAAhA");
    let name = http::HeaderName::from_static("endpoint-load-metrics-bin");
    backend.set_trailers(HeaderMap::from_iter([(name, said)]));
    let listed = "lrs_report_endpoint_metrics: [named_metrics.queue]\n";
    let yaml = reporting(listed, 0, &[("here", 1, 0, &at(&backend))]);
    let control_plane = ControlPlane::start(&yaml).await;
    let channel = channel_by(control_plane.address);
    for _ in 0..5 {
        call(&channel, Call::default()).await.unwrap();
    }
    let load = control_plane
        .reported(|load| load.localities.iter().any(|p| p.requests.succeeded == 5))
        .await;
    let metrics = &load.localities[0].metrics;
    assert_eq!(metrics.len(), 1, "{metrics:?}");
    let queue = metrics["named_metrics.queue"];
    assert_eq!((queue.requests, queue.total), (5, 15.0));
}

/// given a control plane that dies together with its LRS / then calls still succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c141_calls_do_not_need_load_reports() {
    let [backend] = backends().await;
    let yaml = reporting("", 0, &[("here", 1, 0, &at(&backend))]);
    let mut control_plane = crate::support::FolderServer::start(&yaml);
    let channel = channel_by(control_plane.address());
    call_once(&channel).await.unwrap();
    control_plane.kill();
    for _ in 0..20 {
        call_once(&channel).await.unwrap();
    }
}

/// given a channel whose runtime ends soon / when its last handle is closed first / then the control plane has counted
/// every call; closing a handle that is not the last, or one whose control plane is gone, does not wait, or waits for a
/// bounded time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c142_closing_a_channel_sends_its_last_load_report() {
    let [backend] = backends().await;
    let yaml = reporting("", 0, &[("here", 1, 0, &at(&backend))]);
    let control_plane = ControlPlane::start(&yaml).await;
    let address = control_plane.address;
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let channel = channel_by(address);
            for _ in 0..20 {
                call_once(&channel).await.unwrap();
            }
            let begun = tokio::time::Instant::now();
            channel.clone().close().await;
            assert!(begun.elapsed() < Duration::from_millis(100));
            channel.close().await;
        });
        runtime.shutdown_background();
    });
    tokio::task::spawn_blocking(|| elsewhere.join().unwrap())
        .await
        .unwrap();
    let loads = control_plane.reports.loads();
    let issued = loads.iter().flat_map(|load| &load.localities);
    let issued: u64 = issued.map(|place| place.requests.issued).sum();
    assert_eq!(issued, 20, "{loads:?}");

    let mut control_plane = crate::support::FolderServer::start(&yaml);
    let channel = channel_by(control_plane.address());
    call_once(&channel).await.unwrap();
    control_plane.kill();
    let begun = tokio::time::Instant::now();
    channel.close().await;
    assert!(begun.elapsed() < Duration::from_secs(4));
}
