//! The file sink: the served resources as files, for clients that read files (S-57).
//!
//! ```text
//!  OUT/cds.json, lds.json, …        all resources of a type whose SotW responses have all resources
//!  OUT/eds/NAME.json, rds/…         one resource each, as Envoy's `path_config_source` expects
//! ```
//!
//! Each file is a `DiscoveryResponse` in canonical JSON. It is written under a temporary name and then renamed, so a reader
//! sees the complete old file or the complete new file. Resources are written before those that refer to them. Removed
//! resources are deleted last, after a delay: readers of files send no ACK, so they get time to follow instead.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oxds_core::session::Interest;
use oxds_core::snapshot::{Resource, ResourceSet, Snapshot};
use oxds_types::ResourceType;
use oxds_types::codec::response_to_json;
use oxds_types::discovery::{Any, DiscoveryResponse, Node};
use tracing::{error, info};

use crate::cache::Cache;

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
    /// The content of the files.
    written: HashMap<ResourceType, Arc<ResourceSet>>,
    /// The types for which files of an earlier run were deleted.
    swept: BTreeSet<ResourceType>,
}

impl FileSink {
    /// Creates a sink for the resources that all nodes see.
    pub fn new(cache: Cache, folder: impl Into<PathBuf>) -> Self {
        Self {
            cache,
            node: Node::default(),
            folder: folder.into(),
            written: HashMap::new(),
            swept: BTreeSet::new(),
        }
    }

    /// Writes the resources that this node sees, including those of its groups.
    #[must_use]
    pub fn for_node(self, node: Node) -> Self {
        Self { node, ..self }
    }

    /// Writes the served resources, then each change, until the future is dropped. Waits for the first load. After an
    /// error, logs it and tries again.
    ///
    /// Cancel-safe: every file is complete at any time.
    pub async fn run(mut self) {
        self.cache.loaded().await;
        let mut watcher = self.cache.view(&self.node).register_session();
        for resource_type in ResourceType::known() {
            watcher.watch(&resource_type, vec![Interest::All]);
        }
        loop {
            let snapshot = watcher.view().snapshot();
            match self.write(&snapshot).await {
                Ok(()) => watcher.changed(snapshot.revision()).await,
                Err(error) => {
                    error!(folder = %self.folder.display(), %error, "writing files failed");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn write(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut resource_types: Vec<_> = snapshot.types().collect();
        resource_types.sort_by_key(|(resource_type, _)| rank(resource_type));
        let mut removals = Vec::new();
        for (resource_type, published) in resource_types {
            let now = published.collection();
            let before = self.written.get(resource_type);
            if before.is_some_and(|before| before.revision() == now.revision()) {
                continue;
            }
            let gone = gone(before, now);
            if resource_type.all_resources_required_in_sotw() {
                // Removed resources stay until their referrers are written.
                let resources = now.iter().chain(&gone);
                self.put(&self.whole(resource_type), resource_type, now, resources)?;
            } else {
                self.write_each(resource_type, before, now)?;
            }
            removals.push((resource_type.clone(), Arc::clone(now), gone));
        }
        if removals.iter().any(|(_, _, gone)| !gone.is_empty()) {
            tokio::time::sleep(REMOVAL_DELAY).await;
        }
        for (resource_type, now, gone) in removals.into_iter().rev() {
            self.delete(&resource_type, &now, &gone)?;
            info!(%resource_type, version = %now.version(), resources = now.len(), "files written");
            self.written.insert(resource_type, now);
        }
        Ok(())
    }

    fn write_each(
        &self,
        resource_type: &ResourceType,
        before: Option<&Arc<ResourceSet>>,
        now: &ResourceSet,
    ) -> io::Result<()> {
        std::fs::create_dir_all(self.folder.join(short(resource_type)))?;
        for resource in now.iter() {
            let same = before.and_then(|before| before.get(resource.name())) == Some(resource);
            if !same {
                let path = self.single(resource_type, resource.name());
                self.put(&path, resource_type, now, std::iter::once(resource))?;
            }
        }
        Ok(())
    }

    /// Deletes removed resources from the files. The first time, also deletes files of an earlier run.
    fn delete(
        &mut self,
        resource_type: &ResourceType,
        now: &ResourceSet,
        gone: &[Arc<Resource>],
    ) -> io::Result<()> {
        if resource_type.all_resources_required_in_sotw() {
            if gone.is_empty() {
                return Ok(());
            }
            return self.put(&self.whole(resource_type), resource_type, now, now.iter());
        }
        for resource in gone {
            remove(&self.single(resource_type, resource.name()))?;
        }
        if self.swept.insert(resource_type.clone()) {
            let expected: BTreeSet<_> = now
                .iter()
                .map(|r| self.single(resource_type, r.name()))
                .collect();
            for entry in std::fs::read_dir(self.folder.join(short(resource_type)))? {
                let path = entry?.path();
                let ours = path.extension().is_some_and(|ending| ending == "json");
                if ours && !expected.contains(&path) {
                    remove(&path)?;
                }
            }
        }
        Ok(())
    }

    fn put<'a>(
        &self,
        path: &Path,
        resource_type: &ResourceType,
        of: &ResourceSet,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
    ) -> io::Result<()> {
        let any = |resource: &Arc<Resource>| Any {
            type_url: resource_type.type_url().to_owned(),
            value: resource.value(),
        };
        let response = DiscoveryResponse {
            version_info: of.version().to_string(),
            resources: resources.map(any).collect(),
            type_url: resource_type.type_url().to_owned(),
            ..DiscoveryResponse::default()
        };
        let json = response_to_json(&response).map_err(io::Error::other)?;
        std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        // Renamed into place, never written in place (S-57). A hidden name, so that no reader takes it for a resource.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.new"));
        std::fs::write(&temporary, json)?;
        if *resource_type == ResourceType::SECRET {
            restrict_to_owner(&temporary)?;
        }
        std::fs::rename(&temporary, path)
    }

    fn whole(&self, resource_type: &ResourceType) -> PathBuf {
        self.folder.join(format!("{}.json", short(resource_type)))
    }

    fn single(&self, resource_type: &ResourceType, name: &str) -> PathBuf {
        let folder = self.folder.join(short(resource_type));
        folder.join(format!("{}.json", file_name(name)))
    }
}

/// Returns the position of a type in the order of writing: referrers come after the types that they refer to.
fn rank(resource_type: &ResourceType) -> u8 {
    match resource_type {
        cluster if *cluster == ResourceType::CLUSTER => 1,
        resource_type
            if [
                ResourceType::ROUTE,
                ResourceType::SCOPED_ROUTE,
                ResourceType::VIRTUAL_HOST,
            ]
            .contains(resource_type) =>
        {
            2
        }
        listener if *listener == ResourceType::LISTENER => 3,
        _ => 0,
    }
}

fn gone(before: Option<&Arc<ResourceSet>>, now: &ResourceSet) -> Vec<Arc<Resource>> {
    let before = before.into_iter().flat_map(|before| before.iter());
    let gone = before.filter(|resource| now.get(resource.name()).is_none());
    gone.cloned().collect()
}

fn short(resource_type: &ResourceType) -> &str {
    resource_type
        .short_name()
        .unwrap_or(resource_type.message())
}

/// Returns the file name for a resource name: letters, digits, `-`, `_` and inner dots stay, other bytes become `%XX`.
fn file_name(name: &str) -> String {
    let mut file = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => file.push_str("%2E"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                file.push(char::from(byte));
            }
            _ => file.push_str(&format!("%{byte:02X}")),
        }
    }
    file
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn restrict_to_owner(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn restrict_to_owner(_: &Path) -> io::Result<()> {
    Ok(())
}
