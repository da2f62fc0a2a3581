//! The last good state over a restart: a folder that is broken at start, secrets, stores of a program, and damaged
//! files (G-25).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use http::StatusCode;
use oxds_core::group::{GroupUpdate, NodeMatcher};
use oxds_server::{
    ChangeSet, DirStore, ResourceType, SavedState, Server, StateError, StateOptions, Store, Update,
    dir,
};
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::admin;
use crate::client::{CDS, DELTA, SOTW, Stream, ack_delta, ask, subscribe};
use crate::{Running, cluster, removal, until, upsert};

const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// A served folder, and a folder for its state.
struct Site {
    folder: TempDir,
    keeps_secrets: bool,
    allow_empty: bool,
}

impl Site {
    fn new(files: &[(&str, String)]) -> Self {
        let site = Self {
            folder: TempDir::new().unwrap(),
            keeps_secrets: false,
            allow_empty: false,
        };
        fs::create_dir(site.config()).unwrap();
        for (name, text) in files {
            site.write(name, text);
        }
        site
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.config().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Moves the served folder away.
    fn unmount(&self) {
        fs::rename(self.config(), self.folder.path().join("away")).unwrap();
    }

    /// Moves it back.
    fn mount(&self) {
        fs::rename(self.folder.path().join("away"), self.config()).unwrap();
    }

    async fn start(&self) -> Running {
        let options = StateOptions::of_folder(self.config()).keep_secrets(self.keeps_secrets);
        let state = SavedState::open(self.state(), options).unwrap();
        let mut options = dir::Options::default();
        options.last_good = state.last_good();
        options.allow_empty = self.allow_empty;
        let store = DirStore::open(self.config(), options).unwrap();
        Running::start(Server::builder().store(store).state(state)).await
    }

    /// Starts a server, waits until it has read the folder, and stops it.
    async fn run_once(&self) {
        let server = self.start().await;
        server.cache.loaded().await;
        stop(server).await;
    }
}

/// Stops a server in order, so that its state is saved and released.
async fn stop(mut server: Running) {
    server.stop();
    (&mut server.task).await.unwrap();
}

fn yaml(name: &str) -> String {
    format!("\"@type\": {CDS}\nname: {name}\ntype: STATIC\n")
}

fn secret(name: &str) -> String {
    format!(
        "\"@type\": {SDS}\nname: {name}\ngeneric_secret: {{secret: {{inline_string: private}}}}\n"
    )
}

/// Returns the names of the clusters that a node of this cluster sees.
fn clusters(server: &Running, of: &str) -> Vec<String> {
    let node = Node {
        cluster: of.into(),
        ..Node::default()
    };
    let snapshot = server.cache.snapshot_for(&node);
    let clusters = snapshot.of_type(&ResourceType::CLUSTER).collection();
    clusters
        .iter()
        .map(|cluster| cluster.name().to_string())
        .collect()
}

async fn sees(server: &Running, expected: &[&str]) {
    until(&format!("{expected:?}"), async || {
        (clusters(server, "") == expected).then_some(())
    })
    .await;
}

/// Returns the part of the status page about the store.
async fn store(server: &Running) -> Value {
    admin::json(server.http).await["store"].take()
}

async fn ready(server: &Running) -> (StatusCode, String) {
    admin::get(server.http, "/readyz").await
}

/// Subscribes to all resources of a type, as a client that has these versions from before.
fn returning(
    type_url: &str,
    names: &[&str],
    versions: &HashMap<String, String>,
) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        initial_resource_versions: versions.clone(),
        ..subscribe(type_url, names)
    }
}

/// given clients, delta and SotW, and a node group / when the server restarts while its folder is missing / then it is
/// ready and serves the last good state, marked as stale; clients get nothing that they have. When the folder is back,
/// they get the difference.
#[tokio::test]
async fn g25_missing_folder_at_start_serves_the_last_good_state() {
    let site = Site::new(&[
        ("a.yaml", yaml("a")),
        ("groups/edge/group.yaml", "match: {cluster: edge}\n".into()),
        ("groups/edge/b.yaml", yaml("b")),
    ]);
    let server = site.start().await;
    let mut delta = Stream::open(server.grpc, DELTA).await;
    delta.send(&subscribe(CDS, &[]));
    let response = delta.delta().await;
    let versions = response.resources.iter();
    let versions: HashMap<_, _> = versions
        .map(|one| (one.name.clone(), one.version.clone()))
        .collect();
    assert_eq!(versions.keys().collect::<Vec<_>>(), ["a"]);
    let mut sotw = Stream::open(server.grpc, SOTW).await;
    sotw.send(&ask(CDS, &[]));
    let version_info = sotw.sotw().await.version_info;
    assert_eq!(store(&server).await["stale"], Value::Null);
    stop(server).await;

    site.unmount();
    let server = site.start().await;
    let mut sotw = Stream::open(server.grpc, SOTW).await;
    sotw.send(&DiscoveryRequest {
        version_info,
        ..ask(CDS, &[])
    });
    let mut delta = Stream::open(server.grpc, DELTA).await;
    delta.send(&returning(CDS, &[], &versions));
    let response = delta.delta().await;
    assert_eq!(
        (response.resources.len(), response.removed_resources.len()),
        (0, 0)
    );
    delta.send(&ack_delta(&response));
    assert_eq!(clusters(&server, "edge"), ["a", "b"]);
    let (status, text) = ready(&server).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        text.starts_with("ok, stale: serving the last good state, saved "),
        "{text}"
    );
    let shown = store(&server).await;
    assert!(
        shown["stale"]["age_seconds"].as_f64().unwrap() >= 0.0,
        "{shown}"
    );
    assert_eq!(shown["findings"][0]["rule"], "unreadable", "{shown}");
    server.counts("oxds_store_stale 1").await;

    site.mount();
    site.write("c.yaml", &yaml("c"));
    let response = delta.delta().await;
    let names: Vec<_> = response.resources.iter().map(|one| &one.name).collect();
    assert_eq!(names, ["c"]);
    // The first response of the SotW client: until now it had everything.
    assert_eq!(sotw.sotw().await.resources.len(), 2);
    until("current", async || {
        (ready(&server).await.1 == "ok\n").then_some(())
    })
    .await;
    assert_eq!(store(&server).await["stale"], Value::Null);
    server.counts("oxds_store_stale 0").await;
    server.counts("oxds_store_stale_seconds 0.0").await;
}

/// given files that became invalid, were changed, deleted and added while no server ran / when one starts / then the
/// invalid ones keep the content that they had, a definition of a group included, and the others are followed.
#[tokio::test]
async fn g25_invalid_file_at_start_keeps_its_last_content() {
    let site = Site::new(&[
        ("bad.yaml", yaml("bad")),
        ("changed.yaml", yaml("before")),
        ("deleted.yaml", yaml("deleted")),
        ("groups/edge/group.yaml", "match: {cluster: edge}\n".into()),
        ("groups/edge/b.yaml", yaml("of-edge")),
    ]);
    site.run_once().await;
    site.write("bad.yaml", "name: [\n");
    site.write("changed.yaml", &yaml("after"));
    site.write("new.yaml", &yaml("new"));
    site.write("groups/edge/group.yaml", "match: 7\n");
    fs::remove_file(site.config().join("deleted.yaml")).unwrap();

    let server = site.start().await;
    sees(&server, &["after", "bad", "new"]).await;
    assert_eq!(
        clusters(&server, "edge"),
        ["after", "bad", "new", "of-edge"]
    );
    let shown = store(&server).await;
    let findings = shown["findings"].as_array().unwrap();
    let files: Vec<_> = findings
        .iter()
        .map(|one| one["file"].as_str().unwrap())
        .collect();
    assert_eq!(files.len(), 2, "{shown}");
    assert!(files[0].ends_with("bad.yaml") && files[1].ends_with("group.yaml"));
    stop(server).await;

    // The state has all of this, too.
    site.unmount();
    let server = site.start().await;
    sees(&server, &["after", "bad", "new"]).await;
    assert_eq!(
        clusters(&server, "edge"),
        ["after", "bad", "new", "of-edge"]
    );
}

/// given an empty folder at start, as before a volume is mounted / then the last good state is served, and an error
/// says so; with `allow_empty` the folder is served as it is.
#[tokio::test]
async fn g25_empty_folder_at_start_removes_nothing() {
    let mut site = Site::new(&[("a.yaml", yaml("a"))]);
    site.run_once().await;
    site.unmount();
    fs::create_dir(site.config()).unwrap();
    let server = site.start().await;
    sees(&server, &["a"]).await;
    until("a finding", async || {
        (store(&server).await["findings"][0]["rule"] == "empty").then_some(())
    })
    .await;
    assert!(store(&server).await["stale"].is_object());
    stop(server).await;

    site.allow_empty = true;
    let server = site.start().await;
    sees(&server, &[]).await;
}

/// given secrets that are not kept, and a client that has one / when the server restarts without its folder / then the
/// client is not told that the secret is gone; when the folder is back, it gets nothing, because the secret is the
/// same.
#[tokio::test]
async fn g25_secrets_that_are_not_kept_are_waited_for() {
    let site = Site::new(&[("a.yaml", yaml("a")), ("s.yaml", secret("key"))]);
    let server = site.start().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(SDS, &["key"]));
    let had = stream.delta().await.resources.remove(0);
    stop(server).await;
    let bytes = fs::read(site.state().join("last-good")).unwrap();
    assert!(!bytes.windows(7).any(|bytes| bytes == b"private"));

    site.unmount();
    let server = site.start().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    let versions = HashMap::from([("key".to_owned(), had.version.clone())]);
    stream.send(&returning(SDS, &["key", "other"], &versions));
    stream.send(&DeltaDiscoveryRequest {
        node: None,
        ..subscribe(CDS, &[])
    });
    // The answer to the later request. The first one gets no answer.
    assert_eq!(stream.delta().await.type_url, CDS);
    site.mount();
    let response = stream.delta().await;
    assert_eq!(response.type_url, SDS);
    assert_eq!(
        (response.resources.len(), response.removed_resources),
        (0, vec!["other".to_owned()])
    );
}

/// given secrets that are kept / when the server restarts without its folder / then they are served. When it starts
/// without that option, they leave the disk.
#[tokio::test]
async fn g25_kept_secrets_are_served_and_leave_the_disk() {
    let mut site = Site::new(&[("s.yaml", secret("key"))]);
    site.keeps_secrets = true;
    site.run_once().await;
    site.unmount();
    let server = site.start().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(SDS, &["key"]));
    assert_eq!(stream.delta().await.resources[0].name, "key");
    stop(server).await;

    let has_secret = || {
        let bytes = fs::read(site.state().join("last-good")).unwrap();
        bytes.windows(7).any(|bytes| bytes == b"private")
    };
    assert!(has_secret());
    let options = StateOptions::of_folder(site.config());
    let state = SavedState::open(site.state(), options).unwrap();
    assert!(state.last_good().unwrap().lacks_secrets());
    let server = Running::start(Server::builder().state(state)).await;
    stop(server).await;
    assert!(!has_secret());
}

#[cfg(unix)]
#[tokio::test]
async fn g25_state_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new(&[("a.yaml", yaml("a"))]);
    site.run_once().await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&site.state()), 0o700);
    for entry in fs::read_dir(site.state()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn g25_folder_of_a_state_has_one_server() {
    let site = Site::new(&[("a.yaml", yaml("a"))]);
    let server = site.start().await;
    let second = SavedState::open(site.state(), StateOptions::of_folder(site.config()));
    let error = second.unwrap_err();
    assert!(matches!(error, StateError::InUse { .. }), "{error}");
    stop(server).await;
    site.run_once().await;
}

/// given a damaged state, or one of another folder / when a server starts / then it starts as without a state, a
/// warning has the reason, and the file is kept under another name.
#[tokio::test]
async fn g25_invalid_state_is_refused_and_kept_aside() {
    let site = Site::new(&[("a.yaml", yaml("a"))]);
    site.run_once().await;
    let path = site.state().join("last-good");
    let valid = fs::read(&path).unwrap();
    let mut damaged = valid.clone();
    damaged[40] ^= 1;
    let other = "../config/../other";
    fs::create_dir(site.folder.path().join("other")).unwrap();
    for (number, (bytes, served, reason)) in [
        (
            &damaged,
            site.config(),
            "damaged: no complete record at byte 32",
        ),
        (&valid, site.config().join(other), "it is the state of dir:"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&path, bytes).unwrap();
        let state = SavedState::open(site.state(), StateOptions::of_folder(&served)).unwrap();
        assert!(state.last_good().is_none());
        let kept = format!("last-good.invalid-{}", number + 1);
        assert_eq!(fs::read(site.state().join(&kept)).unwrap(), *bytes);
        let server = Running::start(Server::builder().state(state)).await;
        let findings = store(&server).await["findings"].take();
        assert_eq!(findings[0]["severity"], "warning");
        let message = findings[0]["message"].as_str().unwrap();
        assert!(
            message.contains(reason) && message.ends_with(&kept),
            "{message}"
        );
        stop(server).await;
    }
}

/// A store that yields what a test sends.
struct Scripted(mpsc::UnboundedReceiver<Update>);

impl Store for Scripted {
    async fn next(&mut self) -> Option<Update> {
        self.0.recv().await
    }
}

/// Starts a server with such a store, and a state.
async fn scripted(folder: &Path) -> (Running, mpsc::UnboundedSender<Update>) {
    let state = SavedState::open(folder, StateOptions::new("scripted:1")).unwrap();
    let (sender, receiver) = mpsc::unbounded_channel();
    let builder = Server::builder().store(Scripted(receiver)).state(state);
    (Running::start(builder).await, sender)
}

/// given a store of a program, with groups and a position / when it does not deliver after a restart / then its last
/// good state is served. When it delivers its whole state, what that lacks is removed, in groups too.
#[tokio::test]
async fn g25_state_of_any_store_is_served_until_it_delivers() {
    let folder = TempDir::new().unwrap();
    let group = |clusters: &[&str]| {
        let matcher = NodeMatcher {
            cluster: Some(oxds_server::Glob::exact("edge")),
            ..NodeMatcher::default()
        };
        GroupUpdate::new("edge", matcher, upsert(clusters))
    };
    let (server, store) = scripted(folder.path()).await;
    let mut update = Update::from(upsert(&["a", "b"]));
    update.groups = vec![group(&["x", "y"])];
    update.position = Some((*b"head 1").into());
    store.send(update).unwrap();
    sees(&server, &["a", "b"]).await;
    let mut update = Update::from(removal(&["b"]));
    update.changes.upserts.push(cluster("c", b"").into());
    store.send(update).unwrap();
    sees(&server, &["a", "c"]).await;
    stop(server).await;

    let state = SavedState::open(folder.path(), StateOptions::new("scripted:1")).unwrap();
    let last_good = state.last_good().unwrap();
    assert_eq!(last_good.position(), Some(&b"head 1"[..]));
    assert_eq!(last_good.len(), 4);
    drop(state);

    let (server, store) = scripted(folder.path()).await;
    sees(&server, &["a", "c"]).await;
    assert_eq!(clusters(&server, "edge"), ["a", "c", "x", "y"]);
    let mut update = Update::default();
    update.is_unavailable = true;
    update
        .findings
        .push(oxds_server::Finding::error("scripted", "away"));
    store.send(update).unwrap();
    until("the finding", async || {
        let shown = admin::json(server.http).await;
        (shown["store"]["findings"][0]["message"] == "away").then_some(())
    })
    .await;
    assert_eq!(clusters(&server, ""), ["a", "c"]);
    let mut whole = Update::from(upsert(&["c", "d"]));
    whole.groups = vec![group(&["y"])];
    store.send(whole).unwrap();
    sees(&server, &["c", "d"]).await;
    assert_eq!(clusters(&server, "edge"), ["c", "d", "y"]);
    stop(server).await;

    // A group that the store does not have any more.
    let (server, store) = scripted(folder.path()).await;
    store.send(Update::from(upsert(&["c"]))).unwrap();
    sees(&server, &["c"]).await;
    assert_eq!(clusters(&server, "edge"), ["c"]);
    stop(server).await;
    let (server, _store) = scripted(folder.path()).await;
    sees(&server, &["c"]).await;
    assert_eq!(clusters(&server, "edge"), ["c"]);
}

/// given a store that knows its last good state / when its first update continues that, before or after the state is
/// served / then nothing else is removed, and the state on disk is continued, too.
#[tokio::test]
async fn g25_store_may_continue_its_last_good_state() {
    let folder = TempDir::new().unwrap();
    let (server, store) = scripted(folder.path()).await;
    let mut update = Update::from(upsert(&["a", "b"]));
    let of_group = upsert(&["x", "y"]);
    update.groups = vec![GroupUpdate::new("edge", NodeMatcher::default(), of_group)];
    store.send(update).unwrap();
    sees(&server, &["a", "b", "x", "y"]).await;
    stop(server).await;
    let continued = |removed: &str, added: &str| {
        let mut update = Update::from(removal(&[removed]));
        update.changes.upserts.push(cluster(added, b"").into());
        update.groups = vec![GroupUpdate::of_resources("edge", removal(&["x"]))];
        update.continues_last_good = true;
        update
    };

    let (server, store) = scripted(folder.path()).await;
    store.send(continued("a", "c")).unwrap();
    server.cache.loaded().await;
    assert_eq!(clusters(&server, ""), ["b", "c", "y"]);
    stop(server).await;

    let (server, store) = scripted(folder.path()).await;
    sees(&server, &["b", "c", "y"]).await;
    store.send(continued("b", "d")).unwrap();
    sees(&server, &["c", "d", "y"]).await;
    stop(server).await;
    let (server, _store) = scripted(folder.path()).await;
    sees(&server, &["c", "d", "y"]).await;
}

/// given a store that is unavailable, and no state / then nothing is served, not even an empty configuration, until it
/// delivers.
#[tokio::test]
async fn g25_without_a_state_clients_wait_for_the_store() {
    let folder = TempDir::new().unwrap();
    let (server, store) = scripted(folder.path()).await;
    let mut update = Update::default();
    update.is_unavailable = true;
    store.send(update).unwrap();
    server.counts("oxds_store_updates_total 1").await;
    assert_eq!(ready(&server).await.0, StatusCode::SERVICE_UNAVAILABLE);
    store.send(Update::from(ChangeSet::default())).unwrap();
    until("ready", async || {
        (ready(&server).await.0 == StatusCode::OK).then_some(())
    })
    .await;
}
