//! The file sink: what is served, as files, for clients that read files (S-57).
//!
//! ```text
//!  OUT/cds.json, lds.json, …        all of a resource_type whose responses are full states
//!  OUT/eds/NAME.json, rds/…         one resource each, as Envoy's `path_config_source` wants it
//! ```
//!
//! Each file is a `DiscoveryResponse` in canonical JSON, written beside its place and renamed into it: a reader sees the
//! old one or the new one, whole. What is referred to is written before what refers to it; what nothing refers to any
//! more goes last, after readers had time to follow, as they acknowledge nothing.

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

/// How long readers may take to follow before what they used to need goes.
const SETTLE: Duration = Duration::from_secs(1);
/// A folder that cannot be written to may be mended: it is tried again this much later.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes what a node sees into a folder, and follows.
#[derive(Debug)]
pub struct FileSink {
    cache: Cache,
    node: Node,
    folder: PathBuf,
    /// What the files hold.
    written: HashMap<ResourceType, Arc<ResourceSet>>,
    /// Kinds of which the folder was looked through for what an earlier run left.
    swept: BTreeSet<ResourceType>,
}

impl FileSink {
    /// Writes what nodes see that are in no group.
    pub fn new(cache: Cache, folder: impl Into<PathBuf>) -> Self {
        Self {
            cache,
            node: Node::default(),
            folder: folder.into(),
            written: HashMap::new(),
            swept: BTreeSet::new(),
        }
    }

    /// Writes what this node sees instead.
    #[must_use]
    pub fn for_node(self, node: Node) -> Self {
        Self { node, ..self }
    }

    /// Writes what is served, and then each change of it, until it is dropped. Nothing is written before something is
    /// loaded. A failure is logged, and what failed is tried again.
    ///
    /// Cancel-safe: every file is whole at any time.
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
                    error!(folder = %self.folder.display(), %error, "cannot write files");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn write(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut resource_types: Vec<_> = snapshot.types().collect();
        resource_types.sort_by_key(|(resource_type, _)| rank(resource_type));
        let mut leaving = Vec::new();
        for (resource_type, published) in resource_types {
            let now = published.collection();
            let before = self.written.get(resource_type);
            if before.is_some_and(|before| before.revision() == now.revision()) {
                continue;
            }
            let gone = gone(before, now);
            if resource_type.all_resources_required_in_sotw() {
                // Those that leave stay until whatever refers to them has changed.
                let resources = now.iter().chain(&gone);
                self.put(&self.whole(resource_type), resource_type, now, resources)?;
            } else {
                self.write_each(resource_type, before, now)?;
            }
            leaving.push((resource_type.clone(), Arc::clone(now), gone));
        }
        if leaving.iter().any(|(_, _, gone)| !gone.is_empty()) {
            tokio::time::sleep(SETTLE).await;
        }
        for (resource_type, now, gone) in leaving.into_iter().rev() {
            self.take_away(&resource_type, &now, &gone)?;
            info!(%resource_type, version = %now.version(), resources = now.len(), "written to files");
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

    /// Takes what left out of the files, and, the first time, what an earlier run left there.
    fn take_away(
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
        // Hidden, so that nobody takes it for a resource.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.new"));
        std::fs::write(&beside, json)?;
        if *resource_type == ResourceType::SECRET {
            for_the_owner_only(&beside)?;
        }
        std::fs::rename(&beside, path)
    }

    fn whole(&self, resource_type: &ResourceType) -> PathBuf {
        self.folder.join(format!("{}.json", short(resource_type)))
    }

    fn single(&self, resource_type: &ResourceType, name: &str) -> PathBuf {
        let folder = self.folder.join(short(resource_type));
        folder.join(format!("{}.json", file_name(name)))
    }
}

/// What refers to others comes after them: listeners to routes, those to clusters, those to endpoints.
fn rank(resource_type: &ResourceType) -> u8 {
    match resource_type {
        resource_type if *resource_type == ResourceType::CLUSTER => 1,
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
        resource_type if *resource_type == ResourceType::LISTENER => 3,
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

/// A name as a file: letters, digits, `-`, `_` and inner dots stay; other bytes become `%2F`.
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
fn for_the_owner_only(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn for_the_owner_only(_: &Path) -> io::Result<()> {
    Ok(())
}
