//! The file sink: the served resources as files, for clients that read files (S-57).
//!
//! ```text
//!  OUT/cds.json, lds.json, …        all resources of a type whose SotW responses have all resources
//!  OUT/eds/NAME.json, rds/…         one resource each, as Envoy's `path_config_source` expects
//! ```
//!
//! Each file is a `DiscoveryResponse` in canonical JSON. It is written under a temporary name and then renamed, so a
//! reader sees the complete old file or the complete new file. Resources are written before those that refer to them.
//! Removed resources are deleted last, after a delay: readers of files send no ACK, so they get time to follow instead.
//!
//! A file that cannot be written is a finding, and is tried again; the others are written.

mod folder;
mod names;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oxds_core::session::Interest;
use oxds_core::snapshot::Resource;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use crate::cache::Cache;
use crate::store::{Finding, Reporter};
use folder::OutputFolder;

/// The time that readers have to follow before removed resources are deleted.
const REMOVAL_DELAY: Duration = Duration::from_secs(1);
/// The time between two attempts to write after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Writes the resources that a node sees into a folder, and keeps the files up to date.
#[derive(Debug)]
pub struct FileSink {
    cache: Cache,
    node: Node,
    folder: PathBuf,
    reporter: Reporter,
}

impl FileSink {
    /// Creates a sink for the resources that all nodes see.
    pub fn new(cache: Cache, folder: impl Into<PathBuf>) -> Self {
        Self {
            cache,
            node: Node::default(),
            folder: folder.into(),
            reporter: Reporter::default(),
        }
    }

    /// Writes the resources that this node sees, including those of its groups.
    #[must_use]
    pub fn for_node(self, node: Node) -> Self {
        Self { node, ..self }
    }

    /// Reports files that cannot be written, and names that are too long for a file, as findings of a server. Without
    /// this call they are only logged.
    #[must_use]
    pub fn report_to(self, reporter: Reporter) -> Self {
        Self { reporter, ..self }
    }

    /// Returns the findings about resources that could not be written to a folder as they are: names that are too long,
    /// and other files in the way. Writes nothing.
    #[must_use]
    pub fn check<'a>(
        folder: &Path,
        resources: impl IntoIterator<Item = &'a Arc<Resource>>,
    ) -> Vec<Finding> {
        folder::check(folder, resources)
    }

    /// Writes the served resources, then each change, until the future is dropped. Waits for the first load. Reports
    /// errors, and tries again.
    ///
    /// Cancel-safe: every file is complete at any time.
    pub async fn run(self) {
        self.cache.loaded().await;
        let mut watcher = self.cache.view(&self.node).register_session();
        for resource_type in ResourceType::known() {
            watcher.watch(&resource_type, vec![Interest::All]);
        }
        let mut files = OutputFolder::new(self.folder);
        loop {
            let snapshot = watcher.view().snapshot();
            let revision = snapshot.revision();
            let written = blocking(files, move |files| files.write(&snapshot)).await;
            let Some((written, removals)) = written else {
                return;
            };
            if !removals.is_empty() {
                tokio::time::sleep(REMOVAL_DELAY).await;
            }
            let removed = blocking(written, move |files| files.remove(removals)).await;
            let Some((removed, ())) = removed else {
                return;
            };
            files = removed;
            self.reporter.report(files.findings());
            if files.has_failed() {
                tokio::time::sleep(RETRY_DELAY).await;
            } else {
                watcher.changed(revision).await;
            }
        }
    }
}

/// Runs work that blocks. Returns `None` if the runtime shuts down, or if the work panicked, which the panic hook
/// reports.
async fn blocking<T: Send + 'static>(
    mut files: OutputFolder,
    work: impl FnOnce(&mut OutputFolder) -> T + Send + 'static,
) -> Option<(OutputFolder, T)> {
    let done = tokio::task::spawn_blocking(move || {
        let result = work(&mut files);
        (files, result)
    });
    done.await.ok()
}
