//! The store on file systems that do not respond, or that cannot be watched.

use std::fs::ReadDir;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use notify::RecommendedWatcher;
use oxds_core::snapshot::ResourceKey;
use oxds_types::file::{self, ReadError};
use tempfile::TempDir;
use tokio::sync::watch;

use super::DirStore;
use super::disk::{Disk, Handler};
use super::options::Options;
use crate::store::{Store as _, Update};

/// The longest time that an expected event may take.
const SOON: Duration = Duration::from_secs(20);
/// The time after which a read counts as stuck, in tests that want it to.
const SHORT: Duration = Duration::from_millis(100);

/// A disk whose files with certain names block or fail.
#[derive(Default)]
struct TestDisk {
    /// Reads of paths with these names wait until the name is removed.
    blocked: Mutex<Vec<&'static str>>,
    released: Condvar,
    /// The number of threads that wait.
    waiting: watch::Sender<usize>,
    /// The folder that cannot be listed.
    denied: Option<&'static str>,
    /// Whether there are no watches.
    unwatched: bool,
}

impl TestDisk {
    fn block(&self, name: &'static str) {
        self.blocked.lock().unwrap().push(name);
    }

    fn release(&self) {
        self.blocked.lock().unwrap().clear();
        self.released.notify_all();
    }

    fn unblock(&self, name: &str) {
        self.blocked
            .lock()
            .unwrap()
            .retain(|blocked| *blocked != name);
        self.released.notify_all();
    }

    fn wait(&self, path: &Path) {
        let mut blocked = self.blocked.lock().unwrap();
        let is_blocked = |blocked: &mut Vec<&str>| blocked.iter().any(|name| path.ends_with(name));
        if is_blocked(&mut blocked) {
            self.waiting.send_modify(|number| *number += 1);
            drop(self.released.wait_while(blocked, is_blocked).unwrap());
            self.waiting.send_modify(|number| *number -= 1);
        }
    }

    /// Waits until this number of threads wait.
    async fn waits_for_readers(&self, number: usize) {
        let mut waiting = self.waiting.subscribe();
        let reached = waiting.wait_for(|waiting| *waiting == number);
        tokio::time::timeout(SOON, reached).await.unwrap().unwrap();
    }
}

impl Disk for TestDisk {
    fn list(&self, folder: &Path) -> io::Result<ReadDir> {
        self.wait(folder);
        if self.denied.is_some_and(|name| folder.ends_with(name)) {
            Err(io::ErrorKind::PermissionDenied.into())
        } else {
            std::fs::read_dir(folder)
        }
    }

    fn watcher(&self, handler: Handler) -> notify::Result<RecommendedWatcher> {
        if self.unwatched {
            Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch))
        } else {
            notify::recommended_watcher(handler)
        }
    }

    fn read(&self, path: &Path, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        self.wait(path);
        file::read(path, max_bytes)
    }
}

/// A store on such a disk.
struct Fixture {
    dir: TempDir,
    disk: Arc<TestDisk>,
    store: DirStore,
}

impl Fixture {
    fn open(files: &[&str], disk: TestDisk, no_response: Duration) -> Self {
        let (dir, disk) = (TempDir::new().unwrap(), Arc::new(disk));
        for file in files {
            write(dir.path(), file, "");
        }
        let shared: Arc<dyn Disk> = Arc::clone(&disk) as _;
        let root = PathBuf::from(dir.path());
        let store = DirStore::open_on(shared, no_response, root, Options::default()).unwrap();
        Self { dir, disk, store }
    }

    fn change(&self, file: &str) {
        write(self.dir.path(), file, "connect_timeout: 3s\n");
    }

    /// Waits for an update for which the condition holds. Returns its files with findings, and their rules.
    async fn until(&mut self, condition: impl Fn(&Update) -> bool) -> Vec<(String, &'static str)> {
        let found = async {
            loop {
                let update = self.store.next().await.unwrap();
                let removed = |key: &&ResourceKey| !upserts(&update).contains(&&*key.1);
                let removed = update.changes.removals.iter().find(removed);
                assert_eq!(removed, None, "{update:?}");
                if condition(&update) {
                    return update;
                }
            }
        };
        let update = tokio::time::timeout(SOON, found).await.unwrap();
        let findings = update.findings.iter();
        let place = |finding: &crate::store::Finding| {
            let file = finding.file.strip_prefix(self.dir.path()).unwrap();
            (file.display().to_string(), finding.rule)
        };
        findings.map(place).collect()
    }
}

/// Writes a cluster that has the name of its file, by a rename.
fn write(dir: &Path, file: &str, more: &str) {
    let path = dir.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap();
    let text = format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\n{more}"
    );
    std::fs::write(dir.join(".new"), text).unwrap();
    std::fs::rename(dir.join(".new"), path).unwrap();
}

fn upserts(update: &Update) -> Vec<&str> {
    let upserts = update.changes.upserts.iter();
    let mut names: Vec<_> = upserts.map(|resource| &**resource.name()).collect();
    names.sort_unstable();
    names
}

fn finding(file: &str, rule: &'static str) -> (String, &'static str) {
    (file.to_owned(), rule)
}

/// Given a file whose read blocks, then the other files are served, it is reported, and changes of others go on. When
/// it responds, then it is served, too.
#[tokio::test]
async fn file_that_does_not_respond_is_reported() {
    let disk = TestDisk::default();
    disk.block("b.yaml");
    let mut fixture = Fixture::open(&["a.yaml", "b.yaml", "c.yaml"], disk, SHORT);
    let findings = fixture.until(|update| upserts(update) == ["a", "c"]).await;
    assert_eq!(findings, [finding("b.yaml", "unreadable")]);
    fixture.change("a.yaml");
    fixture.until(|update| upserts(update) == ["a"]).await;
    fixture.disk.release();
    let findings = fixture.until(|update| upserts(update) == ["b"]).await;
    assert_eq!(findings, []);
}

/// Given a folder whose listing blocks, then it is left out and reported, and read when it responds.
#[tokio::test]
async fn folder_that_does_not_respond_is_reported() {
    let disk = TestDisk::default();
    disk.block("dead");
    let mut fixture = Fixture::open(&["a.yaml", "dead/b.yaml"], disk, SHORT);
    let findings = fixture.until(|update| upserts(update) == ["a"]).await;
    assert_eq!(findings, [finding("dead", "unreadable")]);
    fixture.disk.release();
    let findings = fixture.until(|update| upserts(update) == ["b"]).await;
    assert_eq!(findings, []);
}

/// Given a changed file that takes long, when another file changes, then that change is served first.
#[tokio::test]
async fn slow_file_does_not_delay_other_files() {
    let mut fixture = Fixture::open(&["a.yaml", "b.yaml"], TestDisk::default(), SOON * 10);
    fixture.until(|update| upserts(update) == ["a", "b"]).await;
    fixture.disk.block("a.yaml");
    fixture.change("a.yaml");
    fixture.disk.waits_for_readers(1).await;
    fixture.change("b.yaml");
    fixture.until(|update| upserts(update) == ["b"]).await;
    fixture.disk.release();
    fixture.until(|update| upserts(update) == ["a"]).await;
}

/// Given a file that changes while the folder is read for the first time, then the first update has all files: clients
/// that return after a restart would lose what it lacks.
#[tokio::test]
async fn s26_first_update_has_the_whole_folder() {
    let disk = TestDisk::default();
    disk.block("b.yaml");
    let mut fixture = Fixture::open(&["a.yaml", "b.yaml"], disk, SOON * 10);
    fixture.disk.waits_for_readers(1).await;
    fixture.disk.block("a.yaml");
    fixture.change("a.yaml");
    fixture.disk.waits_for_readers(2).await;
    fixture.disk.unblock("a.yaml");
    fixture.disk.waits_for_readers(1).await;
    // The second read begins after the first one was taken into account.
    fixture.disk.block("a.yaml");
    fixture.change("a.yaml");
    fixture.disk.waits_for_readers(2).await;
    fixture.disk.release();
    let first = tokio::time::timeout(SOON, fixture.store.next()).await;
    assert_eq!(upserts(&first.unwrap().unwrap()), ["a", "b"]);
}

/// Given a subfolder that may not be read, as `lost+found`, then the store starts, serves the rest, and reports it.
#[tokio::test]
async fn unreadable_subfolder_does_not_stop_the_start() {
    let disk = TestDisk {
        denied: Some("lost+found"),
        ..TestDisk::default()
    };
    let mut fixture = Fixture::open(&["a.yaml", "lost+found/b.yaml"], disk, SOON);
    let findings = fixture.until(|update| upserts(update) == ["a"]).await;
    assert_eq!(findings, [finding("lost+found", "unreadable")]);
    fixture.change("a.yaml");
    fixture.until(|update| upserts(update) == ["a"]).await;
}

/// Given a system without watches, then the store starts, reports it, and polls.
#[tokio::test]
async fn folder_without_watches_is_polled() {
    let disk = TestDisk {
        unwatched: true,
        ..TestDisk::default()
    };
    let mut fixture = Fixture::open(&["a.yaml"], disk, SOON);
    let findings = fixture.until(|update| upserts(update) == ["a"]).await;
    assert_eq!(findings, [finding("", "unwatched")]);
    fixture.change("a.yaml");
    fixture.until(|update| upserts(update) == ["a"]).await;
}

/// Given a system without watches, when a file is deleted, then its resources are removed: the warning about the folder
/// hides no file.
#[tokio::test]
async fn deleted_file_of_polled_folder_is_removed() {
    let disk = TestDisk {
        unwatched: true,
        ..TestDisk::default()
    };
    let mut fixture = Fixture::open(&["a.yaml", "b.yaml"], disk, SOON);
    fixture.until(|update| upserts(update) == ["a", "b"]).await;
    std::fs::remove_file(fixture.dir.path().join("b.yaml")).unwrap();
    let removed = async {
        loop {
            let update = fixture.store.next().await.unwrap();
            if let [(_, name)] = &update.changes.removals[..] {
                return name.to_string();
            }
        }
    };
    let removed = tokio::time::timeout(SOON, removed).await.unwrap();
    assert_eq!(removed, "b");
}
