//! A walk over a folder: the resource files in it, with a stamp for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use oxds_types::codec::Format;
use oxds_types::file::Stamp;

use super::activity::Activity;
use super::disk::Disk;
use crate::store::finding::{Finding, Severity};
use crate::watches::{Identity, Watches};

/// The largest depth of folders. No real configuration is this deep, but links can make a tree that is.
const MAX_DEPTH: usize = 64;

/// The result of a walk.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scan {
    /// The resource files, readable or not. Their paths begin with the folder as the operator named it.
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// Errors about folders that could not be read.
    pub(super) findings: Vec<Finding>,
    /// The folder that was read: the name may lead to another one later. `None` if there was none.
    pub(super) folder: Option<RealFolder>,
}

/// The folder behind a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RealFolder {
    /// The path without links.
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
}

/// The surroundings of a walk.
pub(super) struct Walker<'a> {
    pub(super) disk: &'a dyn Disk,
    /// Watches each folder before it is read, so that no change is missed. `None`: nothing is watched.
    pub(super) watches: Option<&'a Watches>,
    /// Paths that did not respond to an earlier walk. They are left out.
    pub(super) unresponsive: &'a BTreeSet<PathBuf>,
    pub(super) activity: &'a Activity,
}

impl Walker<'_> {
    /// Walks over `root`. The walk follows links, but enters no folder within itself.
    ///
    /// All paths are resolved from the folder that the name leads to at the beginning: if a link is turned over during
    /// the scan, the result is the complete old content.
    pub(super) fn walk(&self, root: &Path) -> Scan {
        let mut scan = Scan::default();
        self.activity.at(root);
        let real = root
            .canonicalize()
            .and_then(|path| Identity::of(&path).map(|identity| RealFolder { path, identity }));
        match real {
            Ok(real) => {
                let place = NamedPath {
                    named: root.into(),
                    real: real.path.clone(),
                };
                let mut above = vec![real.path.clone()];
                scan.folder = Some(real);
                self.folder(&place, &mut above, &mut scan);
            }
            Err(error) => scan.unreadable(root, &error),
        }
        scan
    }

    /// Walks over one folder. `above` holds the canonical paths of this folder and of those that led to it.
    fn folder(&self, place: &NamedPath, above: &mut Vec<PathBuf>, scan: &mut Scan) {
        if self.unresponsive.contains(&place.named) {
            let message = "no response: its last content stays served until it responds";
            let finding = Finding::for_file(&place.named, "unreadable", message);
            scan.findings.push(finding);
            return;
        }
        self.activity.at(&place.named);
        if let Some(watches) = self.watches {
            watches.visit(&place.real);
        }
        let entries = match self.disk.list(&place.real) {
            Ok(entries) => entries,
            Err(error) => return scan.unreadable(&place.named, &error),
        };
        for entry in entries {
            match entry {
                Ok(entry) if is_hidden(&entry.path()) => {}
                Ok(entry) => self.entry(&place.below(&entry.file_name()), above, scan),
                Err(error) => scan.unreadable(&place.named, &error),
            }
        }
    }

    fn entry(&self, place: &NamedPath, above: &mut Vec<PathBuf>, scan: &mut Scan) {
        if Format::from_path(&place.named).is_some() {
            // Of a file that does not respond, not even the metadata is read. Its reader reports it.
            let stamp = if self.unresponsive.contains(&place.named) {
                Stamp::default()
            } else {
                self.activity.at(&place.named);
                Stamp::of(&place.real)
            };
            scan.files.insert(place.named.clone(), stamp);
            return;
        }
        self.activity.at(&place.named);
        // Other files are not resource files. A link that leads nowhere is not a folder, so it is ignored as well.
        if !std::fs::metadata(&place.real).is_ok_and(|metadata| metadata.is_dir()) {
            return;
        }
        let Ok(canonical) = place.real.canonicalize() else {
            return;
        };
        if above.contains(&canonical) {
            let message = format!("link to {}, which contains it", canonical.display());
            let finding = Finding::for_file(&place.named, "loop", &message);
            scan.findings.push(finding);
        } else if above.len() >= MAX_DEPTH {
            let message = format!("folder nested too deep: expected at most {MAX_DEPTH} levels");
            let finding = Finding::for_file(&place.named, "too-deep", &message);
            scan.findings.push(finding);
        } else {
            above.push(canonical);
            self.folder(place, above, scan);
            above.pop();
        }
    }
}

/// A path below the folder: as the operator named it, and from the folder behind the name.
struct NamedPath {
    named: PathBuf,
    real: PathBuf,
}

impl NamedPath {
    fn below(&self, name: &std::ffi::OsStr) -> Self {
        Self {
            named: self.named.join(name),
            real: self.real.join(name),
        }
    }
}

impl Scan {
    fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        let finding = Finding::for_file(path, "unreadable", &error.to_string());
        self.findings.push(finding);
    }

    /// Whether there is a finding about this folder, given by its path without links.
    pub(super) fn has_finding(&self, root: &Path, real: &Path) -> bool {
        let below = |folder: &RealFolder| real.strip_prefix(&folder.path).ok().map(PathBuf::from);
        let Some(below) = self.folder.as_ref().and_then(below) else {
            return false;
        };
        let named = root.join(below);
        self.findings.iter().any(|f| f.file == named)
    }

    /// Whether a folder that could not be read hides this file. Such a file is not deleted.
    pub(super) fn hides(&self, file: &Path) -> bool {
        // A warning is about a folder that was read.
        let mut errors = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        errors.any(|finding| file.starts_with(&finding.file))
    }
}

/// Whether a file or folder is hidden. Editors and Kubernetes keep their own files in hidden ones.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
