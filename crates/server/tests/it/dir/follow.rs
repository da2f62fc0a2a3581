//! A folder that changes under a store.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use oxds_server::dir::Options;
use oxds_server::{DirStore, Server, Store, Update};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{changed, cluster, folder, lines, write};
use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, SOON};

/// A store and what it served so far.
struct Watched {
    dir: TempDir,
    store: DirStore,
    served: BTreeSet<String>,
    findings: Vec<String>,
}

impl Watched {
    async fn start(files: &[(&str, &str)]) -> Self {
        let dir = folder(files);
        let store = DirStore::open(dir.path(), Options::default()).unwrap();
        let (served, findings) = (BTreeSet::new(), Vec::new());
        let mut watched = Self {
            dir,
            store,
            served,
            findings,
        };
        watched.next().await;
        watched
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, text: &str) {
        write(self.path(), name, text);
    }

    /// The next update, kept account of. Returns what it added or changed, and removed, by name.
    async fn next(&mut self) -> (Vec<String>, Vec<String>) {
        let update = timeout(SOON, self.store.next())
            .await
            .expect("no update came")
            .unwrap();
        self.account(&update)
    }

    fn account(&mut self, update: &Update) -> (Vec<String>, Vec<String>) {
        self.findings = lines(&self.dir, &update.findings);
        let upserts: Vec<_> = update
            .changes
            .upserts
            .iter()
            .map(|r| r.name().to_string())
            .collect();
        let mut removals: Vec<_> = update
            .changes
            .removals
            .iter()
            .map(|(_, name)| name.to_string())
            .collect();
        removals.retain(|name| !upserts.contains(name));
        for name in &removals {
            self.served.remove(name);
        }
        self.served.extend(upserts.iter().cloned());
        (upserts, removals)
    }

    /// Asserts that no update comes that changes anything: the save before was one change set, not two.
    async fn assert_quiet(&mut self) {
        // Ten times the quiet period after which a second change set would come.
        if let Ok(Some(update)) = timeout(Duration::from_millis(500), self.store.next()).await {
            assert!(update.changes.is_empty(), "{update:?}");
        }
    }

    fn serves(&self, expected: &[&str]) {
        assert_eq!(
            self.served.iter().map(String::as_str).collect::<Vec<_>>(),
            expected
        );
    }
}

/// Given a watched route to a cluster of another file; when that file comes and goes; then so does the warning,
/// though the route's file is not read again.
#[tokio::test]
async fn s70_a_warning_follows_the_file_that_is_referred_to() {
    let route = r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
virtual_hosts:
- { name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: c } }] }
"#;
    let mut watched = Watched::start(&[("r.yaml", route)]).await;
    assert_eq!(watched.findings.len(), 1);
    watched.write("c.yaml", &cluster("c"));
    watched.next().await;
    assert_eq!(watched.findings, [""; 0]);
    fs::remove_file(watched.path().join("c.yaml")).unwrap();
    watched.next().await;
    assert_eq!(watched.findings.len(), 1, "{:?}", watched.findings);
    assert!(
        watched.findings[0].starts_with("r.yaml:"),
        "{:?}",
        watched.findings
    );
}

/// Given a served file; when it is saved in each of the ways in which editors save; then each save is exactly one
/// change set with the one resource.
#[tokio::test]
async fn s72_each_save_pattern_is_one_change_set() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]).await;
    let path = watched.path().join("a.yaml");
    let temporary = watched.path().join(".a.yaml.swp");
    let backup = watched.path().join("a.yaml~");
    type Save<'a> = &'a dyn Fn(&str);
    let saves: [(&str, Save); 5] = [
        ("in place", &|text| fs::write(&path, text).unwrap()),
        ("in place, in pieces", &|text| {
            use std::io::Write as _;
            let mut file = fs::File::create(&path).unwrap();
            for byte in text.as_bytes().chunks(16) {
                file.write_all(byte).unwrap();
                file.flush().unwrap();
            }
        }),
        ("write another, rename over it", &|text| {
            fs::write(&temporary, text).unwrap();
            fs::rename(&temporary, &path).unwrap();
        }),
        ("rename away, create", &|text| {
            fs::rename(&path, &backup).unwrap();
            fs::write(&path, text).unwrap();
            fs::remove_file(&backup).unwrap();
        }),
        ("delete, create", &|text| {
            fs::remove_file(&path).unwrap();
            fs::write(&path, text).unwrap();
        }),
    ];
    for (how, save) in saves {
        let text = format!("{}alt_stat_name: \"{how}\"\n", cluster("a"));
        save(&text);
        let (upserts, removals) = watched.next().await;
        assert_eq!((upserts, removals), (vec!["a".to_owned()], vec![]), "{how}");
        watched.assert_quiet().await;
    }
    watched.serves(&["a", "b"]);
}

/// Given a served file; when it is broken, its resources stay served and the error is told, while another file's
/// change applies; when it is mended, its change applies and the error is gone; when it is deleted, so are its
/// resources (S-73).
#[tokio::test]
async fn s73_a_broken_file_keeps_what_it_held() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]).await;
    watched.write("a.yaml", "name: [unclosed\n");
    watched.write("c.yaml", &cluster("c"));
    assert_eq!(watched.next().await, (vec!["c".to_owned()], vec![]));
    watched.serves(&["a", "b", "c"]);
    assert!(
        watched.findings[0].starts_with("a.yaml:"),
        "{:?}",
        watched.findings
    );

    watched.write("a.yaml", &changed("a"));
    assert_eq!(watched.next().await.0, ["a"]);
    assert_eq!(watched.findings, [""; 0]);

    fs::remove_file(watched.path().join("a.yaml")).unwrap();
    assert_eq!(watched.next().await, (vec![], vec!["a".to_owned()]));
    watched.serves(&["b", "c"]);
}

/// Given a file that says what no cluster has, when a client asks for its cluster, it hears what is wrong, and gets the
/// cluster when that is mended. One that is not there is said to be missing as ever.
#[tokio::test]
async fn s73_a_client_hears_why_a_name_is_not_served() {
    let broken = format!("{}connect_timeout: 3s\nno_such_field: 1\n", cluster("b"));
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &broken)]);
    let store = DirStore::open(dir.path(), Options::default()).unwrap();
    let server = Running::start(Server::builder().store(store)).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    let mut request = subscribe(CDS, &["a", "b", "z"]);
    request.node.get_or_insert_default().client_features =
        vec!["xds.config.supports-resource-errors".to_owned()];
    stream.send(&request);

    let response = stream.delta().await;
    assert_eq!(response.resources[0].name, "a");
    assert_eq!(response.removed_resources, ["z"]);
    let error = &response.resource_errors[0];
    assert_eq!(error.resource_name.as_ref().unwrap().name, "b");
    let detail = error.error_detail.as_ref().unwrap();
    assert_eq!(detail.code, 13, "internal: what the client has, it keeps");
    let message = &detail.message;
    assert!(
        message.contains("b.yaml:5:1: error: ") && message.contains("no_such_field"),
        "{message}"
    );
    stream.send(&ack_delta(&response));

    write(dir.path(), "b.yaml", &cluster("b"));
    assert_eq!(stream.delta().await.resources[0].name, "b");
}

/// Given a name that another file takes; then it stays with the file that had it, and goes over when that file lets
/// go of it; a move within one save is no gap.
#[tokio::test]
async fn s72_a_name_moves_between_files() {
    let mut watched = Watched::start(&[("b.yaml", &cluster("x"))]).await;
    watched.write("a.yaml", &changed("x"));
    assert_eq!(watched.next().await, (vec![], vec![]));
    assert!(
        watched.findings[0].starts_with("a.yaml:"),
        "{:?}",
        watched.findings
    );

    fs::remove_file(watched.path().join("b.yaml")).unwrap();
    assert_eq!(watched.next().await, (vec!["x".to_owned()], vec![]));
    assert_eq!(watched.findings, [""; 0]);

    fs::rename(watched.path().join("a.yaml"), watched.path().join("c.yaml")).unwrap();
    assert_eq!(watched.next().await, (vec!["x".to_owned()], vec![]));
    watched.serves(&["x"]);
}

/// Given a folder that is watched; when folders below it come, are filled, are renamed and go; then what is served
/// follows.
#[tokio::test]
async fn s72_folders_come_and_go() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a"))]).await;
    watched.write("new.d/deep/b.yaml", &cluster("b"));
    while !watched.served.contains("b") {
        watched.next().await;
    }
    // The new folder is watched, too.
    watched.write("new.d/deep/c.yaml", &cluster("c"));
    while !watched.served.contains("c") {
        watched.next().await;
    }
    let elsewhere = TempDir::new().unwrap();
    fs::rename(watched.path().join("new.d"), elsewhere.path().join("new.d")).unwrap();
    while watched.served.len() > 1 {
        watched.next().await;
    }
    watched.serves(&["a"]);
}

/// Given a folder that is watched; when it is deleted, then what it held stays served, and the log says why; when it is
/// made again, with the same or with other files, then it is followed as before.
#[tokio::test]
async fn s72_s73_a_folder_that_comes_back_is_followed() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a"))]).await;
    let root = watched.path().to_owned();
    for (file, name) in [("b.yaml", "b"), ("c.yaml", "c")] {
        fs::remove_dir_all(&root).unwrap();
        while watched.findings.is_empty() {
            watched.next().await;
        }
        watched.serves(&["a"]);
        fs::create_dir(&root).unwrap();
        watched.write("a.yaml", &cluster("a"));
        while !watched.findings.is_empty() {
            watched.next().await;
        }
        watched.write(file, &cluster(name));
        while !watched.served.contains(name) {
            watched.next().await;
        }
        watched.serves(&["a", name]);
        fs::remove_file(root.join(file)).unwrap();
        while watched.served.contains(name) {
            watched.next().await;
        }
    }
}

/// Given files in the manner of a Kubernetes ConfigMap, where all lead through one link; when the link is replaced;
/// then all changes come as one change set.
#[cfg(unix)]
#[tokio::test]
async fn s69_a_config_map_is_replaced_as_one() {
    use std::os::unix::fs::symlink;
    let dir = folder(&[
        ("..1/a.yaml", &cluster("a")),
        ("..1/b.yaml", &cluster("b")),
        ("..2/a.yaml", &changed("a")),
        ("..2/b.yaml", &changed("b")),
    ]);
    symlink("..1", dir.path().join("..data")).unwrap();
    for file in ["a.yaml", "b.yaml"] {
        symlink(format!("..data/{file}"), dir.path().join(file)).unwrap();
    }
    let store = DirStore::open(dir.path(), Options::default()).unwrap();
    let (served, findings) = (BTreeSet::new(), Vec::new());
    let mut watched = Watched {
        dir,
        store,
        served,
        findings,
    };
    watched.next().await;
    watched.serves(&["a", "b"]);

    symlink("..2", watched.path().join("..data_tmp")).unwrap();
    fs::rename(
        watched.path().join("..data_tmp"),
        watched.path().join("..data"),
    )
    .unwrap();
    let (mut upserts, removals) = watched.next().await;
    upserts.sort();
    assert_eq!(
        (upserts, removals),
        (vec!["a".to_owned(), "b".to_owned()], vec![])
    );
}

/// Given a store; when it is told to reload, it reads everything again, and what did not change is no change to what
/// is served.
#[tokio::test]
async fn a_reload_reads_everything_again() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a"))]).await;
    let cache = oxds_server::Cache::new();
    watched.store.reload().reload();
    let update = timeout(SOON, watched.store.next()).await.unwrap().unwrap();
    let first = cache.apply(update.changes);
    watched.store.reload().reload();
    let update = timeout(SOON, watched.store.next()).await.unwrap().unwrap();
    assert_eq!(update.changes.upserts.len(), 1);
    assert_eq!(cache.apply(update.changes).revision(), first.revision());
}

/// Given 2,000 files; then they load, progress is told to its end, and one changed file is read alone (S-75).
#[tokio::test]
async fn s75_progress_is_told_and_one_file_is_read_alone() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let dir = folder(&[]);
    for i in 0..2000 {
        write(dir.path(), &format!("{i}.yaml"), &cluster(&format!("c{i}")));
    }
    let read = Arc::new(AtomicUsize::new(0));
    let mut options = Options::default();
    let count = Arc::clone(&read);
    options.progress = Some(Arc::new(move |_, _| {
        count.fetch_add(1, SeqCst);
    }));
    let mut store = DirStore::open(dir.path(), options).unwrap();
    let update = timeout(SOON, store.next()).await.unwrap().unwrap();
    assert_eq!(update.changes.upserts.len(), 2000);
    assert_eq!(read.swap(0, SeqCst), 2000);
    write(dir.path(), "7.yaml", &changed("c7"));
    let update = timeout(SOON, store.next()).await.unwrap().unwrap();
    assert_eq!(update.changes.upserts.len(), 1);
    assert_eq!(read.load(SeqCst), 1);
}
