//! C-262 – C-265: files as a source, without a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use oxds_client::metrics::{self, Instrument, Recorder};
use oxds_client::source::File;
use oxds_client::{
    Bootstrap, ClientPool, Options, Source, Update, Watch, WatchErrorReason, XdsClient,
};
use oxds_core::resource::{Assignment, Cluster};
use oxds_types::ResourceType;
use oxds_types::codec::{self, Format, response_to_json};
use oxds_types::discovery::DiscoveryResponse;
use prost::Message as _;
use tempfile::TempDir;

use crate::log::Log;
use crate::scripted::{ambient, error, next, value};

/// An update is delivered within this time (C-263); a busy machine gets as long again.
const SHOWN: Duration = Duration::from_secs(2);

fn client() -> XdsClient {
    let bootstrap = Bootstrap::without_servers().node_id("files").build();
    XdsClient::with_options(bootstrap.unwrap().into(), Options::default())
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A document with one cluster, which names this service for its endpoints.
fn cluster(service: &str) -> String {
    format!(
        "version_info: \"1\"
resources:
- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: c
  type: EDS
  eds_cluster_config: {{ eds_config: {{ ads: {{}} }}, service_name: {service} }}
"
    )
}

/// Replaces the file by a rename, as `kubectl` does.
fn replace(path: &Path, content: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(new, path).unwrap();
}

async fn shows(watch: &mut Watch<Cluster>, service: &str) {
    let since = Instant::now();
    assert_eq!(&*value(watch).await.eds_service_name, service);
    let took = since.elapsed();
    assert!(took < SHOWN, "{service} took {took:?}");
}

/// The same response in every format that a file may have.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let yaml = cluster("x");
    let options = codec::Options::default();
    let loaded = codec::decode(Path::new("c.yaml"), Format::Yaml, yaml.as_bytes(), &options);
    let response = DiscoveryResponse {
        version_info: "1".to_owned(),
        resources: loaded
            .unwrap()
            .into_iter()
            .map(|loaded| loaded.any)
            .collect(),
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        ..DiscoveryResponse::default()
    };
    let text = br#"
        version_info: "1"
        resources {
          [type.googleapis.com/envoy.config.cluster.v3.Cluster] {
            name: "c"
            type: EDS
            eds_cluster_config { eds_config { ads {} } service_name: "x" }
          }
        }"#;
    vec![
        ("c.yaml", yaml.clone().into()),
        ("c.yml", yaml.into()),
        ("c.json", response_to_json(&response).unwrap()),
        ("c.pb", response.encode_to_vec()),
        ("c.pb_text", text.to_vec()),
        ("c.textproto", text.to_vec()),
    ]
}

/// given a file with a `DiscoveryResponse`, in each format that a file extension selects / when a cluster of it is
/// watched / then it is delivered; a cluster that the file lacks does not exist once the resource timer has expired.
#[tokio::test(flavor = "multi_thread")]
async fn c262_a_file_of_any_format_is_read() {
    let folder = folder();
    let client = client();
    for (name, content) in forms() {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let source = Source::file(&path);
        let mut there = client.watch_from::<Cluster>(&source, "c").unwrap();
        let soon = source.with_initial_fetch_timeout(Duration::from_millis(500));
        let mut missing = client.watch_from::<Cluster>(&soon, "d").unwrap();
        assert_eq!(&*value(&mut there).await.eds_service_name, "x", "{name}");
        let told = error(&mut missing, WatchErrorReason::DoesNotExist)
            .await
            .to_string();
        assert!(told.contains(name), "{told}");
    }
}

/// given a file with clusters and endpoints / then each type is watched separately, and a name that is watched later
/// gets the existing resource.
#[tokio::test(flavor = "multi_thread")]
async fn c262_one_file_serves_several_types_and_names() {
    let folder = folder();
    let path = folder.path().join("all.yaml");
    let assignment =
        "- \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: x
- \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: y
";
    fs::write(&path, cluster("x") + assignment).unwrap();
    let (client, source) = (client(), Source::file(&path));
    let mut cluster = client.watch_from::<Cluster>(&source, "c").unwrap();
    value(&mut cluster).await;
    for name in ["x", "y"] {
        let mut watch = client.watch_from::<Assignment>(&source, name).unwrap();
        value(&mut watch).await;
    }
    let mut first = client.watch_from::<Assignment>(&source, "x").unwrap();
    value(&mut first).await;
    let mut second = client.watch_from::<Assignment>(&source, "y").unwrap();
    value(&mut second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c263_a_file_renamed_into_place_is_seen() {
    let folder = folder();
    let path = folder.path().join("c.yaml");
    replace(&path, cluster("one"));
    let mut watch = client().watch_from(&Source::file(&path), "c").unwrap();
    shows(&mut watch, "one").await;
    for service in ["two", "three"] {
        replace(&path, cluster(service));
        shows(&mut watch, service).await;
    }
    // In place, as an editor may do.
    fs::write(&path, cluster("four")).unwrap();
    shows(&mut watch, "four").await;
}

/// A ConfigMap as Kubernetes mounts it: `c.yaml` leads through `..data` to the folder of the current version, and an
/// update renames a new link over `..data`.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn c263_a_config_map_that_is_swapped_is_seen() {
    use std::os::unix::fs::symlink;
    let folder = folder();
    let mount = folder.path();
    let swap = |version: &str| {
        let versioned = mount.join(format!("..{version}"));
        fs::create_dir(&versioned).unwrap();
        fs::write(versioned.join("c.yaml"), cluster(version)).unwrap();
        symlink(format!("..{version}"), mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    swap("one");
    symlink("..data/c.yaml", mount.join("c.yaml")).unwrap();
    // Watched by the folder of its path, and by a configured folder: the path leads there from elsewhere.
    symlink(mount.join("c.yaml"), mount.join("away.yaml")).unwrap();
    let elsewhere = self::folder();
    let link = elsewhere.path().join("c.yaml");
    symlink(mount.join("c.yaml"), &link).unwrap();
    let sources = [
        Source::file(mount.join("c.yaml")),
        File::new(&link).watched_directory(mount).into(),
    ];
    let client = client();
    let mut watches = Vec::new();
    for source in &sources {
        let mut watch = client.watch_from(source, "c").unwrap();
        shows(&mut watch, "one").await;
        watches.push(watch);
    }
    for version in ["two", "three"] {
        let before: PathBuf = fs::read_link(mount.join("..data")).unwrap();
        swap(version);
        fs::remove_dir_all(mount.join(before)).unwrap();
        for watch in &mut watches {
            shows(watch, version).await;
        }
    }
}

/// given a folder that does not exist yet, so that there is no notification, or a file that is polled by configuration
/// / then a change is found by polling.
#[tokio::test(flavor = "multi_thread")]
async fn c263_file_without_notifications_is_polled() {
    let folder = folder();
    let later = folder.path().join("later");
    let path = later.join("c.yaml");
    let interval = Duration::from_millis(100);
    let sources = [
        Source::file(&path),
        File::new(&path).poll_interval(interval).into(),
    ];
    let client = client();
    let watches = sources.map(|source| client.watch_from::<Cluster>(&source, "c").unwrap());
    fs::create_dir(&later).unwrap();
    replace(&path, cluster("one"));
    for mut watch in watches {
        shows(&mut watch, "one").await;
        replace(&path, cluster("two"));
        shows(&mut watch, "two").await;
        replace(&path, cluster("one"));
        shows(&mut watch, "one").await;
    }
}

/// given a watched file / when an invalid one replaces it / then the cluster stays, and the ambient error names file,
/// line and reason; when a valid one follows, it applies.
#[tokio::test(flavor = "multi_thread")]
async fn c264_invalid_file_changes_nothing() {
    let folder = folder();
    let path = folder.path().join("c.yaml");
    replace(&path, cluster("one"));
    let (client, source) = (client(), Source::file(&path));
    let mut watch = client.watch_from(&source, "c").unwrap();
    shows(&mut watch, "one").await;
    let broken_rule = cluster("two").replace("name: c", "name: c\n  connect_timeout: -1s");
    for (content, line, reason) in [
        ("resources: [", ":1:", "error"),
        ("resources:\n- name: c\n", ":2:", "missing `@type`"),
        (&broken_rule, ":5:", "connect_timeout"),
    ] {
        replace(&path, content);
        let ambient_error = ambient(&mut watch, WatchErrorReason::Invalid)
            .await
            .to_string();
        let place = format!("c.yaml{line}");
        assert!(ambient_error.contains(&place), "{ambient_error}");
        assert!(ambient_error.contains(reason), "{ambient_error}");
    }
    // A new watcher gets both.
    let mut late = client.watch_from::<Cluster>(&source, "c").unwrap();
    assert_eq!(&*value(&mut late).await.eds_service_name, "one");
    ambient(&mut late, WatchErrorReason::Invalid).await;
    replace(&path, cluster("three"));
    shows(&mut watch, "three").await;
    replace(&path, "resources: [");
    ambient(&mut watch, WatchErrorReason::Invalid).await;
    replace(&path, cluster("three"));
    assert!(matches!(next(&mut watch).await, Update::Ambient(None)));
}

/// Counts rejected updates.
#[derive(Debug, Default)]
struct Rejected(AtomicU64);

impl Recorder for Rejected {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        if *counter == metrics::RESOURCE_UPDATES_INVALID {
            assert_eq!(labels[2], ResourceType::CLUSTER.message());
            self.0.fetch_add(by, Relaxed);
        }
    }

    fn set(&self, _: &'static Instrument, _: &[&str], _: i64) {}
    fn end(&self, _: &'static Instrument, _: &[&str]) {}
}

/// given a watched file / when an invalid one replaces it / then that is logged with file, line and reason, and counted
/// once.
#[tokio::test]
async fn c264_invalid_file_is_logged_and_counted() {
    let (log, _listening) = Log::start();
    let folder = folder();
    let path = folder.path().join("c.yaml");
    replace(&path, cluster("one"));
    let rejected = Arc::new(Rejected::default());
    let bootstrap = Bootstrap::without_servers().build().unwrap();
    let pool = ClientPool::new(bootstrap).with_recorder(rejected.clone());
    let client = pool.client("files");
    let mut watch = client.watch_from(&Source::file(&path), "c").unwrap();
    shows(&mut watch, "one").await;
    log.take();
    replace(&path, "resources:\n- name: c\n");
    ambient(&mut watch, WatchErrorReason::Invalid).await;
    let path = path.display();
    let line = format!("WARN oxds::ads: response NACKed server={path}");
    let events = log.take();
    assert!(events[0].starts_with(&line), "{events:#?}");
    let cause = format!("{path}:2:3: error: resources[0]: missing `@type`");
    assert!(events[0].contains(&cause), "{events:#?}");
    assert_eq!(rejected.0.load(Relaxed), 1);
}

/// given a file that does not exist / when it is watched / then the watch waits, and gets an error when the resource
/// timer expires; when the file appears, it applies.
#[tokio::test(flavor = "multi_thread")]
async fn c265_a_file_that_is_missing_is_waited_for() {
    let folder = folder();
    let path = folder.path().join("c.yaml");
    let resource_timeout = Duration::from_millis(700);
    let client = client();
    let source = Source::file(&path).with_initial_fetch_timeout(resource_timeout);
    let since = Instant::now();
    let mut watch = client.watch_from(&source, "c").unwrap();
    let told = error(&mut watch, WatchErrorReason::DoesNotExist)
        .await
        .to_string();
    assert!(since.elapsed() >= resource_timeout, "{:?}", since.elapsed());
    assert!(told.contains("no answer within 0.7 s"), "{told}");
    replace(&path, cluster("one"));
    shows(&mut watch, "one").await;
    fs::remove_file(&path).unwrap();
    replace(&path, cluster("two"));
    shows(&mut watch, "two").await;
}

/// Two watches of one file share one task; when the last ends, the task ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_lives_as_long_as_its_watches() {
    let folder = folder();
    let path = folder.path().join("c.yaml");
    replace(&path, cluster("one"));
    let (client, source) = (client(), Source::file(&path));
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let mut one = client.watch_from::<Cluster>(&source, "c").unwrap();
    let mut two = client.watch_from::<Cluster>(&source, "c").unwrap();
    value(&mut one).await;
    value(&mut two).await;
    assert_eq!(tasks(), before + 1, "one task for both");
    drop((one, two));
    oxds_channel::testing::expect::eventually(|| tasks() == before).await;
}
