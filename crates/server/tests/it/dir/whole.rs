//! Changes that are served only as a whole: files that are being written, folders that are replaced, strict references.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use oxds_server::dir::Options;
use oxds_server::{DirStore, Store};
use tempfile::TempDir;
use tokio::time::timeout;

use super::watched::Watched;
use super::{changed, cluster, folder, write};
use crate::SOON;

/// Given a file that a program truncates, and writes later or in two halves, then nothing is removed: the file is shown
/// as waited for, and read when it is complete.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn s73_slow_write_in_place_removes_nothing() {
    use std::io::Write as _;
    let whole = format!("{}---\n{}", cluster("a"), cluster("b"));
    let mut watched = Watched::start(&[("ab.yaml", &whole)]).await;
    let path = watched.path().join("ab.yaml");
    let new = format!("{}---\n{}---\n{}", changed("a"), cluster("b"), cluster("c"));
    for at in [0, cluster("a").len() + 4, new.len() / 2] {
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&new.as_bytes()[..at]).unwrap();
        watched.finding("waiting").await;
        file.write_all(&new.as_bytes()[at..]).unwrap();
        drop(file);
        watched.upserts().await;
        watched.serves(&["a", "b", "c"]);
        watched.write("ab.yaml", &whole);
        // The file loses `c`, so it must be stable before.
        while watched.served.contains("c") {
            watched.next().await;
        }
    }
}

/// Given a file that became empty, then its resources stay served, and the error says what to do. When it is written,
/// then the error is gone. An explicit empty list removes.
#[tokio::test]
async fn s73_empty_file_is_an_error_unless_allowed() {
    let mut watched = Watched::start(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]).await;
    watched.write("a.yaml", "");
    watched.finding("empty").await;
    watched.serves(&["a", "b"]);
    assert!(
        watched.findings[0].contains("--allow-empty"),
        "{:?}",
        watched.findings
    );
    watched.write("a.yaml", &changed("a"));
    assert_eq!(watched.upserts().await, ["a"]);
    assert_eq!(watched.findings, [""; 0]);
    watched.write("a.yaml", "[]\n");
    while watched.served.contains("a") {
        watched.next().await;
    }
    watched.serves(&["b"]);

    let mut options = Options::default();
    options.allow_empty = true;
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let mut watched = Watched::with(dir, options).await;
    watched.write("a.yaml", "# nothing\n");
    while watched.served.contains("a") {
        watched.next().await;
    }
    watched.serves(&["b"]);
}

/// Given a resource that moves between two files which are written in place, then it is never removed.
#[tokio::test]
async fn resource_that_moves_between_files_is_not_lost() {
    let both = format!("{}---\n{}", cluster("a"), cluster("b"));
    let mut watched = Watched::start(&[("1.yaml", &both), ("2.yaml", &cluster("c"))]).await;
    watched.write("1.yaml", &cluster("a"));
    watched.write("2.yaml", &format!("{}---\n{}", cluster("c"), changed("b")));
    while !watched.upserts().await.contains(&"b".to_owned()) {}
    watched.serves(&["a", "b", "c"]);
}

/// Given a served folder behind a link, when the link is turned over, then all changes are one change set, and the new
/// folder is followed. So it is for a link in the middle of the path.
#[cfg(unix)]
#[tokio::test]
async fn s69_turned_link_is_one_change_set() {
    use std::os::unix::fs::symlink;
    for below in ["", "config"] {
        let dir = TempDir::new().unwrap();
        let release = |name: &str, files: &[(&str, &str)]| {
            for (file, text) in files {
                write(&dir.path().join(name).join(below), file, text);
            }
            symlink(name, dir.path().join("new")).unwrap();
            fs::rename(dir.path().join("new"), dir.path().join("current")).unwrap();
        };
        release("1", &[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
        let root = dir.path().join("current").join(below);
        let mut store = DirStore::open(&root, Options::default()).unwrap();
        let first = timeout(SOON, store.next()).await.unwrap().unwrap();
        assert_eq!(first.changes.upserts.len(), 2);
        release("2", &[("a.yaml", &changed("a")), ("c.yaml", &cluster("c"))]);
        let second = timeout(SOON, store.next()).await.unwrap().unwrap();
        let upserts = second.changes.upserts.iter();
        let mut upserts: Vec<_> = upserts
            .map(|resource| resource.name().to_string())
            .collect();
        upserts.sort();
        let removals = second.changes.removals.iter();
        let removals: Vec<_> = removals.map(|(_, name)| &**name).collect();
        assert_eq!(
            (upserts.join(" "), removals.join(" ")),
            ("a c".into(), "a b".into())
        );
        write(&root, "a.yaml", &cluster("a"));
        let third = timeout(SOON, store.next()).await.unwrap().unwrap();
        assert_eq!(third.changes.upserts.len(), 1, "the new folder is watched");
    }
}

/// Given a served folder, when another one is renamed to its place, then all changes are one change set. When it is
/// deleted, and created empty and then filled, then its resources stay served until it is filled.
#[tokio::test]
async fn s72_replaced_folder_is_followed() {
    let parent = folder(&[
        ("config/a.yaml", &cluster("a")),
        ("config/b.yaml", &cluster("b")),
        ("next/a.yaml", &changed("a")),
        ("next/c.yaml", &cluster("c")),
    ]);
    let root = parent.path().join("config");
    let store = DirStore::open(&root, Options::default()).unwrap();
    let (served, findings) = (BTreeSet::new(), Vec::new());
    let mut watched = Watched {
        dir: parent,
        store,
        served,
        findings,
    };
    watched.next().await;
    fs::rename(&root, watched.path().join("previous")).unwrap();
    fs::rename(watched.path().join("next"), &root).unwrap();
    while !watched.served.contains("c") {
        watched.next().await;
    }
    watched.serves(&["a", "c"]);

    fs::remove_dir_all(&root).unwrap();
    fs::create_dir(&root).unwrap();
    watched.finding("empty").await;
    watched.serves(&["a", "c"]);
    watched.write("config/d.yaml", &cluster("d"));
    while !watched.served.contains("d") {
        watched.next().await;
    }
    watched.serves(&["d"]);
    assert_eq!(watched.findings, [""; 0]);
    watched.write("config/e.yaml", &cluster("e"));
    watched.upserts().await;
}

/// Given files that are written one after the other, slower than by default, when the quiet time is longer, then they
/// are one change set.
#[tokio::test]
async fn quiet_time_collects_slow_writes() {
    let mut options = Options::default();
    options.quiet = Duration::from_secs(2);
    let mut watched = Watched::with(folder(&[("a.yaml", &cluster("a"))]), options).await;
    for name in ["b", "c", "d"] {
        tokio::time::sleep(Duration::from_millis(150)).await;
        watched.write(&format!("{name}.yaml"), &cluster(name));
    }
    assert_eq!(watched.upserts().await, ["b", "c", "d"]);
}

/// Given a thousand broken files and one with a thousand broken documents, then the findings are bounded, and counted.
#[tokio::test]
async fn findings_are_capped_with_a_count() {
    let many = "name: x\n---\n".repeat(1_000);
    let dir = folder(&[("many.yaml", &many)]);
    for i in 0..1_000 {
        write(dir.path(), &format!("{i}.yaml"), "name: x\n");
    }
    let mut store = DirStore::open(dir.path(), Options::default()).unwrap();
    let update = timeout(SOON, store.next()).await.unwrap().unwrap();
    assert_eq!(update.findings.len(), 1_000);
    assert_eq!(update.more_findings.errors, 1_000);
    let report = super::load(&dir);
    assert_eq!(report.findings.len(), 1_100);
    assert_eq!(report.count(oxds_server::Severity::Error), 2_000);
}

/// Given a route to a cluster, in strict mode: a change that would lead to a dangling reference keeps the last content
/// of its file, whether it adds the reference or removes the resource, and is served when the rest follows.
#[tokio::test]
async fn s70_strict_keeps_the_last_content_without_dangling() {
    let route = |cluster: &str| {
        format!(
            r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
virtual_hosts:
- {{ name: all, domains: ["*"], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: {cluster} }} }}] }}
"#
        )
    };
    let mut options = Options::default();
    options.strict = true;
    let dir = folder(&[("c.yaml", &cluster("c")), ("r.yaml", &route("c"))]);
    let mut watched = Watched::with(dir, options).await;
    watched.serves(&["c", "r"]);

    watched.write("r.yaml", &route("d"));
    watched.finding("dangling").await;
    assert!(
        watched.findings[0].starts_with("r.yaml:"),
        "{:?}",
        watched.findings
    );
    fs::remove_file(watched.path().join("c.yaml")).unwrap();
    while !watched
        .findings
        .iter()
        .any(|line| line.starts_with("c.yaml:"))
    {
        assert_eq!(watched.next().await.1, [""; 0], "the old route needs it");
    }
    watched.serves(&["c", "r"]);

    // Now the new route and the deletion are both possible.
    watched.write("d.yaml", &cluster("d"));
    while watched.served.contains("c") {
        watched.next().await;
    }
    watched.serves(&["d", "r"]);
    assert_eq!(watched.findings, [""; 0]);
}
