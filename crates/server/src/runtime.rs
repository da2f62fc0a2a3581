//! Runtime layers on disk: read again when they change.
//!
//! ```text
//!   look at the stamps ── the same ──────────────────────────────────────▶ wait
//!     ▲                └─ changed ──▶ quiet for 50 ms ──▶ read ──▶ Runtime::replace, or Runtime::failed
//!     └──────────────────────────────────────────────────────────────────────┘
//! ```
//! The stamps are polled, because this also sees a symbolic link that is replaced in a folder far above.

use std::sync::Arc;
use std::time::{Duration, Instant};

use oxds_types::runtime::{Disk, DiskError, DiskState, Runtime};
use tokio::time::sleep;
use tracing::{error, info};

use crate::discovery::Context;

/// Shortest time between two looks. A look takes one system call per file.
const LOOK: Duration = Duration::from_millis(200);
/// The time between two looks, in multiples of the time that a look takes: a large folder must not keep a core busy.
const LOOK_FACTOR: u32 = 20;
/// Time without a change after which a layer is read: some programs write a file in parts.
const QUIET: Duration = Duration::from_millis(50);
/// Waits for [`QUIET`] until a layer is read nevertheless.
const MAX_WAITS: usize = 10;

/// A runtime layer on disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskLayer {
    pub(crate) name: String,
    pub(crate) disk: Disk,
}

/// The state of a layer on disk: equal states have equal content, or the same error.
type Look = Result<DiskState, DiskError>;

/// Follows a layer until a shutdown begins.
pub(crate) async fn follow(layer: DiskLayer, context: Arc<Context>) {
    let server = &context.server;
    let following = async {
        // The first look reads the layer again: it may have changed since the start of the program.
        let mut known = None;
        let mut pause = Duration::ZERO;
        loop {
            sleep(pause).await;
            let started = Instant::now();
            let Some(mut found) = look(&layer.disk).await else {
                return;
            };
            pause = LOOK.max(started.elapsed() * LOOK_FACTOR);
            if known.as_ref() == Some(&found) {
                continue;
            }
            for _ in 0..MAX_WAITS {
                sleep(QUIET).await;
                let before = found;
                let Some(now) = look(&layer.disk).await else {
                    return;
                };
                found = now;
                if found == before {
                    break;
                }
            }
            known = Some(found);
            let (reading, runtime) = (layer.clone(), server.runtime.clone());
            if tokio::task::spawn_blocking(move || load(&reading, &runtime))
                .await
                .is_err()
            {
                return;
            }
            context.cache.notifier().notify();
        }
    };
    tokio::select! {
        () = following => {}
        () = server.closing.cancelled() => {}
    }
}

/// Looks at a layer on a thread that may block. `None`: the runtime of the program stops.
async fn look(disk: &Disk) -> Option<Look> {
    let disk = disk.clone();
    let looked = tokio::task::spawn_blocking(move || disk.state());
    looked.await.ok()
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
