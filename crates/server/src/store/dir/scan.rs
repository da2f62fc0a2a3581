//! A walk over a folder: the resource files in it, with a stamp for each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oxds_types::codec::Format;
use oxds_types::file::Stamp;

use crate::store::finding::Finding;

/// The largest depth of folders. No real configuration is this deep, but links can make a tree that is.
const MAX_DEPTH: usize = 64;

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The resource files, readable or not.
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// Errors about folders that could not be read.
    pub(super) findings: Vec<Finding>,
}

impl Scan {
    /// Walks over `root`. The walk follows links, but enters no folder within itself.
    pub(super) fn of(root: &Path) -> Self {
        let mut scan = Self::default();
        match root.canonicalize() {
            Ok(canonical) => scan.folder(root, &mut vec![canonical]),
            Err(error) => {
                scan.findings
                    .push(Finding::of_rule(root, "unreadable", &error.to_string()));
            }
        }
        scan
    }

    /// Walks over one folder. `above` holds the canonical paths of this folder and of those that led to it.
    fn folder(&mut self, folder: &Path, above: &mut Vec<PathBuf>) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.findings
                    .push(Finding::of_rule(folder, "unreadable", &error.to_string()));
                return;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) if is_hidden(&entry.path()) => {}
                Ok(entry) => self.entry(&entry, above),
                Err(error) => {
                    self.findings
                        .push(Finding::of_rule(folder, "unreadable", &error.to_string()));
                }
            }
        }
    }

    fn entry(&mut self, entry: &std::fs::DirEntry, above: &mut Vec<PathBuf>) {
        let path = entry.path();
        if Format::from_path(&path).is_some() {
            let stamp = Stamp::of(&path);
            self.files.insert(path, stamp);
            return;
        }
        // Other files are not resource files. A link that leads nowhere is not a folder, so it is ignored as well.
        if !std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return;
        }
        let Ok(canonical) = path.canonicalize() else {
            return;
        };
        if above.contains(&canonical) {
            let message = format!("link to {}, which contains it", canonical.display());
            self.findings
                .push(Finding::of_rule(&path, "loop", &message));
        } else if above.len() >= MAX_DEPTH {
            let message = format!("folder nested too deep: expected at most {MAX_DEPTH} levels");
            self.findings
                .push(Finding::of_rule(&path, "too-deep", &message));
        } else {
            above.push(canonical);
            self.folder(&path, above);
            above.pop();
        }
    }
}

/// Whether a file or folder is hidden. Editors and Kubernetes keep their own files in hidden ones.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
