//! A folder whose files change while a store watches it.

use std::fs;

use oxds_server::dir::Options;
use oxds_server::{DirStore, Server, Store};
use tempfile::TempDir;
use tokio::time::timeout;

use super::watched::Watched;
use super::{changed, cluster, folder, write};
use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, SOON};

/// Given a route to a cluster of another file, when that file is added and deleted, then the warning goes and comes
/// back, although the file of the route is not read again.
#[tokio::test]
async fn s70_dangling_warning_follows_the_referenced_file() {
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

/// Given a served file, when it is saved in each way that editors use, then each save is exactly one change set with
/// the one resource.
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

/// Given a served file, when it becomes invalid, then its resources stay served, the error is reported, and the change
/// of another file applies. When it is fixed, its change applies and the error is gone. When it is deleted, its
/// resources are removed (S-73).
#[tokio::test]
async fn s73_invalid_file_keeps_its_last_content() {
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

/// Given a file with an unknown field, when a client subscribes to its cluster, then it gets a resource error with the
/// reason, and the cluster when the file is fixed. A name that is in no file is a removed resource, as usual.
#[tokio::test]
async fn s73_resource_error_explains_an_invalid_file() {
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
    assert_eq!(
        detail.code, 13,
        "INTERNAL: the client keeps its cached resource"
    );
    let message = &detail.message;
    assert!(
        message.contains("b.yaml:5:1: error: ") && message.contains("no_such_field"),
        "{message}"
    );
    stream.send(&ack_delta(&response));

    write(dir.path(), "b.yaml", &cluster("b"));
    assert_eq!(stream.delta().await.resources[0].name, "b");
}

/// Given a name that a second file takes, then it stays with the first file, and passes to the second when the first is
/// deleted. A rename of a file causes no removal.
#[tokio::test]
async fn s72_name_moves_between_files() {
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

/// Given a watched folder, when folders below it are created, filled and moved away, then the served resources follow.
#[tokio::test]
async fn s72_new_and_deleted_folders_are_followed() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a"))]).await;
    watched.write("new.d/deep/b.yaml", &cluster("b"));
    while !watched.served.contains("b") {
        watched.next().await;
    }
    // The store watches the new folder, too.
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

/// Given a watched folder, when it is deleted, then its resources stay served and there is a finding. When it is
/// created again, with the same or with other files, then it is followed as before.
#[tokio::test]
async fn s72_s73_recreated_folder_is_followed() {
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

/// Given the files of a Kubernetes ConfigMap, which all lead through one link, when the link is replaced, then all
/// changes are one change set.
#[cfg(unix)]
#[tokio::test]
async fn s69_config_map_update_is_one_change_set() {
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
    let mut watched = Watched::with(dir, Options::default()).await;
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

/// Given a store, when it is reloaded, then it reads all files again. Unchanged resources do not change the snapshot.
#[tokio::test]
async fn reload_reads_all_files_again() {
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

/// Given 2,000 files, then progress is reported for each, and one changed file is read alone (S-75).
#[tokio::test]
async fn s75_progress_is_reported_and_one_file_is_read_alone() {
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
