//! Runtime layers on disk: read again when they change.
//!
//! ```text
//!   look at the stamps ── the same ─────────────────────────────────────▶ wait for an event, another real path,
//!     ▲                └─ changed ──▶ quiet for 50 ms ──▶ read ──▶ Runtime     or a look without either
//!     └──────────────────────────────────────────────────────────────────────┘
//! ```
//! The system reports changes in the folders of a layer. It does not report a symbolic link that is replaced in a
//! folder far above, so the real path of the layer is polled, which is one call. A layer whose folders cannot be
//! watched is polled as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxds_types::runtime::{Disk, DiskError, DiskState, Runtime};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use crate::context::Context;
use crate::watches::{Watches, is_change};

/// Time without a change after which a layer is read: some programs write a file in parts.
const QUIET: Duration = Duration::from_millis(50);
/// Waits for [`QUIET`] until a layer is read nevertheless.
const MAX_WAITS: usize = 10;
/// Looks until the watches of a layer whose folders change at the same time are complete.
const MAX_LOOKS: usize = 10;

/// A runtime layer on disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskLayer {
    pub(crate) name: String,
    pub(crate) disk: Disk,
}

/// Times between looks.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Time between two looks at the real path, and the shortest time between two looks at all files without watches.
    look: Duration,
    /// Time between two looks at all files of a layer that is watched: on some file systems, events get lost.
    backstop: Duration,
    /// Time between two looks at all files without watches, in multiples of the time that a look takes: a large folder
    /// must not keep a core busy.
    share: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            look: Duration::from_millis(200),
            backstop: Duration::from_secs(5),
            share: 20,
        }
    }
}

/// The state of a layer on disk: equal states have equal content, or the same error.
type Look = Result<DiskState, DiskError>;

/// Follows a layer until a shutdown begins.
pub(crate) async fn follow(layer: DiskLayer, context: Arc<Context>) {
    let server = &context.server;
    let arrived = Arc::new(Notify::new());
    let watcher = notify::recommended_watcher(handler(&arrived));
    let follower = Follower {
        layer,
        runtime: server.runtime.clone(),
        watches: Arc::new(Watches::start(watcher)),
        arrived,
        pace: Pace::default(),
    };
    tokio::select! {
        () = follower.run(|| context.cache.notifier().notify()) => {}
        () = server.closing.cancelled() => {}
    }
}

/// Returns a handler of events that notifies of changes.
fn handler(
    arrived: &Arc<Notify>,
) -> impl FnMut(notify::Result<notify::Event>) + Send + 'static + use<> {
    let arrived = Arc::clone(arrived);
    move |event| {
        if is_change(&event) {
            arrived.notify_one();
        }
    }
}

struct Follower {
    layer: DiskLayer,
    runtime: Runtime,
    watches: Arc<Watches>,
    /// Notified of each change in a watched folder.
    arrived: Arc<Notify>,
    pace: Pace,
}

impl Follower {
    /// Runs until the runtime of the program stops. `loaded` is called after each read.
    async fn run(self, loaded: impl Fn()) {
        // The first look reads the layer again: it may have changed since the start of the program.
        let mut known: Option<Look> = None;
        let mut is_polled = false;
        loop {
            let started = Instant::now();
            let Some(mut found) = self.look().await else {
                return;
            };
            let took = started.elapsed();
            if known.as_ref() != Some(&found) {
                for _ in 0..MAX_WAITS {
                    sleep(QUIET).await;
                    let before = found;
                    let Some(now) = self.look().await else {
                        return;
                    };
                    found = now;
                    if found == before {
                        break;
                    }
                }
                known = Some(found.clone());
                let (reading, runtime) = (self.layer.clone(), self.runtime.clone());
                let reading = tokio::task::spawn_blocking(move || load(&reading, &runtime));
                if reading.await.is_err() {
                    return;
                }
                loaded();
            }
            match (self.watches.unwatched(|_| false), found) {
                (None, Ok(state)) => self.wait(state.root()).await,
                (unwatched, _) => {
                    if let Some(unwatched) = unwatched.filter(|_| !is_polled) {
                        is_polled = true;
                        let (layer, reason) = (&self.layer.name, &unwatched.reason);
                        let folder = unwatched.first.display();
                        warn!(%layer, %folder, %reason, "runtime layer not watched, but polled");
                    }
                    sleep(self.pace.look.max(took * self.pace.share)).await;
                }
            }
        }
    }

    /// Waits until a look is worth its cost: something was reported, the real path is another one, or time has passed.
    async fn wait(&self, known: Option<&Path>) {
        let moved = async {
            loop {
                sleep(self.pace.look).await;
                if self.real_path().await.as_deref() != known {
                    return;
                }
            }
        };
        let changed = async {
            tokio::select! {
                () = self.arrived.notified() => {}
                () = moved => {}
            }
        };
        // The end of the time leads to a look, as a change does.
        drop(timeout(self.pace.backstop, changed).await);
    }

    async fn real_path(&self) -> Option<PathBuf> {
        let disk = self.layer.disk.clone();
        let path = tokio::task::spawn_blocking(move || disk.real_path());
        path.await.ok().flatten()
    }

    /// Looks at the layer on a thread that may block, and watches its folders before. `None`: the runtime of the
    /// program stops.
    async fn look(&self) -> Option<Look> {
        let (disk, watches) = (self.layer.disk.clone(), Arc::clone(&self.watches));
        let look = tokio::task::spawn_blocking(move || {
            let mut found = disk.state();
            for _ in 0..MAX_LOOKS {
                let folders = found.iter().flat_map(DiskState::folders);
                if !watches.only(folders) {
                    break;
                }
                // A change before the watch began was not reported.
                found = disk.state();
            }
            found
        });
        look.await.ok()
    }
}

fn load(DiskLayer { name, disk }: &DiskLayer, runtime: &Runtime) {
    match disk.read(name) {
        Ok((layer, _)) => {
            let keys = layer.values().len();
            // The builder has checked the name.
            if runtime.replace(layer) == Ok(true) {
                info!(layer = %name, keys, "runtime changed");
            }
        }
        Err(failure) => {
            if runtime.failed(name, &failure) {
                error!(layer = %name, error = %failure, "runtime layer not loaded, keeping its last values");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use oxds_types::runtime::{Layer, Source};
    use tempfile::TempDir;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);
    const NEVER: Duration = Duration::from_secs(3600);

    /// A layer that is followed, until dropped.
    struct Following {
        runtime: Runtime,
        changed: Arc<Notify>,
        task: tokio::task::JoinHandle<()>,
        _subscription: oxds_types::runtime::Subscription,
    }

    impl Drop for Following {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    impl Following {
        fn start(path: &Path, watcher: Result<(), notify::ErrorKind>, pace: Pace) -> Self {
            let layer = Layer::new("disk", Source::Disk(path.to_owned()));
            let runtime = Runtime::new(vec![layer]).unwrap();
            let (arrived, changed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let watcher = match watcher {
                Ok(()) => notify::recommended_watcher(handler(&arrived)),
                Err(kind) => Err(notify::Error::new(kind)),
            };
            let follower = Follower {
                layer: DiskLayer {
                    name: "disk".to_owned(),
                    disk: Disk::new(path),
                },
                runtime: runtime.clone(),
                watches: Arc::new(Watches::start(watcher)),
                arrived,
                pace,
            };
            let notified = Arc::clone(&changed);
            Self {
                _subscription: runtime.on_change(move || notified.notify_one()),
                runtime,
                changed,
                task: tokio::spawn(follower.run(|| {})),
            }
        }

        /// Waits until a key has this value.
        async fn shows(&self, key: &str, text: &str) {
            let shown = async {
                loop {
                    let snapshot = self.runtime.snapshot();
                    if snapshot
                        .get(key)
                        .is_some_and(|value| value.to_string() == text)
                    {
                        return;
                    }
                    self.changed.notified().await;
                }
            };
            let shown = timeout(SOON, shown).await;
            shown.unwrap_or_else(|_| panic!("{key} is not {text:?}: {:?}", self.runtime.layers()));
        }
    }

    fn write(dir: &TempDir, path: &str, text: &str) {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Given folders that are never polled, when a file, a new folder in them and a file in that change, then each is
    /// read.
    #[tokio::test]
    async fn v47_change_in_a_folder_is_read_by_its_event() {
        let dir = TempDir::new().unwrap();
        write(&dir, "a/b", "1");
        let pace = Pace {
            look: NEVER,
            backstop: NEVER,
            share: 1,
        };
        let following = Following::start(dir.path(), Ok(()), pace);
        following.shows("a.b", "1").await;
        write(&dir, "a/b", "2");
        following.shows("a.b", "2").await;
        write(&dir, "new/deep/c", "3");
        following.shows("new.deep.c", "3").await;
        write(&dir, "new/deep/c", "4");
        following.shows("new.deep.c", "4").await;
    }

    /// Given a file that is never polled, when it is replaced by a rename, then it is read.
    #[tokio::test]
    async fn v47_replaced_file_is_read_by_its_event() {
        let dir = TempDir::new().unwrap();
        write(&dir, "runtime.yaml", "a: 1");
        let pace = Pace {
            look: NEVER,
            backstop: NEVER,
            share: 1,
        };
        let path = dir.path().join("runtime.yaml");
        let following = Following::start(&path, Ok(()), pace);
        following.shows("a", "1").await;
        write(&dir, "new", "a: 2");
        fs::rename(dir.path().join("new"), &path).unwrap();
        following.shows("a", "2").await;
    }

    /// Given a link in a folder that is not watched, when it is turned over, then the real path shows it.
    #[cfg(unix)]
    #[tokio::test]
    async fn v47_link_turned_over_is_seen_by_the_real_path() {
        let dir = TempDir::new().unwrap();
        write(&dir, "1/x/a", "1");
        write(&dir, "2/x/a", "2");
        let link_to = |target: &str| {
            let new = dir.path().join("new");
            std::os::unix::fs::symlink(target, &new).unwrap();
            fs::rename(new, dir.path().join("current")).unwrap();
        };
        link_to("1");
        let pace = Pace {
            look: Duration::from_millis(10),
            backstop: NEVER,
            share: 1,
        };
        let following = Following::start(&dir.path().join("current/x"), Ok(()), pace);
        following.shows("a", "1").await;
        link_to("2");
        following.shows("a", "2").await;
    }

    /// Given a system that has no watches to give, then the layer is polled.
    #[tokio::test]
    async fn v47_layer_without_watches_is_polled() {
        let dir = TempDir::new().unwrap();
        write(&dir, "a", "1");
        let pace = Pace {
            look: Duration::from_millis(10),
            backstop: NEVER,
            share: 1,
        };
        let watcher = Err(notify::ErrorKind::MaxFilesWatch);
        let following = Following::start(dir.path(), watcher, pace);
        following.shows("a", "1").await;
        write(&dir, "a", "2");
        following.shows("a", "2").await;
    }
}
