//! The folder of written files: what is written, what failed, and what must be deleted. It blocks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxds_core::snapshot::{Resource, ResourceSet, Snapshot};
use oxds_types::ResourceType;
use oxds_types::codec::response_to_json;
use oxds_types::discovery::{Any, DiscoveryResponse};
use tracing::info;

use super::names::{folder_of, is_long, single, whole};
use crate::store::{Finding, Severity};

/// The files of a folder.
#[derive(Debug)]
pub(super) struct OutputFolder {
    folder: PathBuf,
    /// The content of the files.
    written: HashMap<ResourceType, Arc<ResourceSet>>,
    /// The types for which files of an earlier run were deleted.
    swept: BTreeSet<ResourceType>,
    /// The files that could not be written or deleted, with the reason.
    failed: BTreeMap<PathBuf, String>,
    /// The resources whose names are too long, by file.
    long: BTreeMap<PathBuf, (ResourceType, Arc<str>)>,
}

/// Resources that are removed after a delay.
#[derive(Debug, Default)]
pub(super) struct Removals(Vec<Removal>);

#[derive(Debug)]
struct Removal {
    resource_type: ResourceType,
    now: Arc<ResourceSet>,
    gone: Vec<Arc<Resource>>,
}

impl Removals {
    /// Whether nothing needs the delay.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|removal| removal.gone.is_empty())
    }
}

impl OutputFolder {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            written: HashMap::new(),
            swept: BTreeSet::new(),
            failed: BTreeMap::new(),
            long: BTreeMap::new(),
        }
    }

    /// Whether something failed, and should be tried again.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Returns the findings about the files, as of the latest write.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let failed = self.failed.iter().map(|(path, reason)| {
            let message = format!("cannot write the file: {reason}");
            Finding::for_file(path, "files", &message)
        });
        let long = self
            .long
            .iter()
            .map(|(path, (resource_type, name))| long_name(path, resource_type, name));
        failed.chain(long).collect()
    }

    /// Writes what differs, resources before those that refer to them. Returns what must be removed when readers had
    /// time to follow.
    ///
    /// A file that fails does not keep the others from being written, with one exception: if all resources of a type
    /// are in one file, and it fails, then the types that may refer to them wait.
    pub(super) fn write(&mut self, snapshot: &Snapshot) -> Removals {
        let mut resource_types: Vec<_> = snapshot.types().collect();
        resource_types.sort_by_key(|(resource_type, _)| rank(resource_type));
        let failed_before = std::mem::take(&mut self.failed);
        let (mut removals, mut failed_rank) = (Removals::default(), None);
        for (resource_type, published) in resource_types {
            let rank = rank(resource_type);
            if failed_rank.is_some_and(|failed| failed < rank) {
                break;
            }
            let now = published.collection();
            let before = self.written.get(resource_type).cloned();
            let is_same = |before: &Arc<ResourceSet>| before.revision() == now.revision();
            let in_folder = folder_of(&self.folder, resource_type);
            let retry = failed_before
                .keys()
                .any(|path| path.starts_with(&in_folder));
            if before.as_ref().is_some_and(is_same) && !retry {
                continue;
            }
            let gone = gone(before.as_ref(), now);
            if resource_type.all_resources_required_in_sotw() {
                // Removed resources stay until their referrers are written.
                let resources = now.iter().chain(&gone);
                let path = whole(&self.folder, resource_type);
                let result = self.put(&path, resource_type, now, resources);
                if !self.succeeded(&path, result) {
                    failed_rank = Some(rank);
                    continue;
                }
            } else {
                self.write_each(resource_type, before.as_ref(), now, &failed_before);
            }
            removals.0.push(Removal {
                resource_type: resource_type.clone(),
                now: Arc::clone(now),
                gone,
            });
        }
        removals
    }

    fn write_each(
        &mut self,
        resource_type: &ResourceType,
        before: Option<&Arc<ResourceSet>>,
        now: &ResourceSet,
        failed_before: &BTreeMap<PathBuf, String>,
    ) {
        let folder = folder_of(&self.folder, resource_type);
        let created = std::fs::create_dir_all(&folder);
        if !self.succeeded(&folder, created) {
            return;
        }
        let retry_all = failed_before.contains_key(&folder);
        for resource in now.iter() {
            let name = resource.name();
            let same = before.and_then(|before| before.get(name)) == Some(resource);
            if same && failed_before.is_empty() {
                continue;
            }
            let path = single(&self.folder, resource_type, name);
            if same && !retry_all && !failed_before.contains_key(&path) {
                continue;
            }
            let result = self.put(&path, resource_type, now, std::iter::once(resource));
            self.succeeded(&path, result);
            if is_long(name) {
                let resource = (resource_type.clone(), Arc::clone(name));
                self.long.insert(path, resource);
            }
        }
    }

    /// Deletes removed resources from the files, referrers first. The first time, also deletes files of an earlier run.
    pub(super) fn remove(&mut self, removals: Removals) {
        for removal in removals.0.into_iter().rev() {
            self.remove_of_type(&removal);
            let Removal {
                resource_type, now, ..
            } = removal;
            info!(%resource_type, version = %now.version(), resources = now.len(), "files written");
            self.written.insert(resource_type, now);
        }
    }

    fn remove_of_type(&mut self, removal: &Removal) {
        let Removal {
            resource_type,
            now,
            gone,
        } = removal;
        if resource_type.all_resources_required_in_sotw() {
            if !gone.is_empty() {
                let path = whole(&self.folder, resource_type);
                let result = self.put(&path, resource_type, now, now.iter());
                self.succeeded(&path, result);
            }
            return;
        }
        for resource in gone {
            let path = single(&self.folder, resource_type, resource.name());
            self.long.remove(&path);
            let result = remove(&path);
            self.succeeded(&path, result);
        }
        if self.swept.insert(resource_type.clone()) {
            let folder = folder_of(&self.folder, resource_type);
            let swept = self.sweep(&folder, resource_type, now);
            self.succeeded(&folder, swept);
        }
    }

    /// Deletes the files of an earlier run.
    fn sweep(
        &self,
        folder: &Path,
        resource_type: &ResourceType,
        now: &ResourceSet,
    ) -> io::Result<()> {
        let path = |resource: &Arc<Resource>| single(&self.folder, resource_type, resource.name());
        let expected: BTreeSet<_> = now.iter().map(path).collect();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let ours = path.extension().is_some_and(|ending| ending == "json");
            if ours && !expected.contains(&path) {
                remove(&path)?;
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

    /// Records the error of a failed write. Returns whether the write succeeded.
    fn succeeded(&mut self, path: &Path, result: io::Result<()>) -> bool {
        match result {
            Ok(()) => true,
            Err(error) => {
                self.failed.insert(path.into(), error.to_string());
                false
            }
        }
    }
}

/// Returns findings about resources that could not be written to a folder as they are, without writing.
pub(super) fn check<'a>(
    folder: &Path,
    resources: impl IntoIterator<Item = &'a Arc<Resource>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_the_way = BTreeSet::new();
    for resource in resources {
        let (resource_type, name) = (resource.resource_type(), resource.name());
        let path = if resource_type.all_resources_required_in_sotw() {
            whole(folder, resource_type)
        } else {
            let path = single(folder, resource_type, name);
            if is_long(name) {
                findings.push(long_name(&path, resource_type, name));
            }
            path
        };
        let parent = path.parent().unwrap_or(folder);
        if parent.exists() && !parent.is_dir() {
            in_the_way.insert((parent.to_path_buf(), "is not a folder: expected one"));
        } else if path.is_dir() {
            in_the_way.insert((path, "is a folder: expected a file, or nothing"));
        }
    }
    let in_the_way = in_the_way.into_iter();
    findings.extend(in_the_way.map(|(path, reason)| {
        let message = format!("cannot write the file: {reason}");
        Finding::for_file(&path, "files", &message)
    }));
    findings
}

fn long_name(path: &Path, resource_type: &ResourceType, name: &Arc<str>) -> Finding {
    let message = format!(
        "the name of {resource_type} {name:?} is too long for a file: its file has a hash of the name"
    );
    Finding {
        severity: Severity::Warning,
        resource_type: Some(resource_type.clone()),
        resource: Some(name.to_string()),
        ..Finding::for_file(path, "long-name", &message)
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
