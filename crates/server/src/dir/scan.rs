//! A walk over the folder: which files there are, and whether they changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oxds_types::codec::Format;
use oxds_types::file::Stamp;

use super::file::finding;
use crate::store::Finding;

/// How deep folders may lie in each other. Nobody nests configuration this deep; a tangle of links may.
const DEPTH: usize = 64;

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Resource files, readable or not.
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// What could not be walked.
    pub(super) findings: Vec<Finding>,
}

impl Scan {
    /// Walks `root`. Links are followed, but not in circles.
    pub(super) fn of(root: &Path) -> Self {
        let mut scan = Self::default();
        match root.canonicalize() {
            Ok(canonical) => scan.folder(root, &mut vec![canonical]),
            Err(error) => scan
                .findings
                .push(finding(root, "unreadable", &error.to_string())),
        }
        scan
    }

    /// Walks one folder. `above` holds where it and the folders it was reached by really are.
    fn folder(&mut self, folder: &Path, above: &mut Vec<PathBuf>) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.findings
                    .push(finding(folder, "unreadable", &error.to_string()));
                return;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) if is_hidden(&entry.path()) => {}
                Ok(entry) => self.entry(&entry, above),
                Err(error) => {
                    self.findings
                        .push(finding(folder, "unreadable", &error.to_string()));
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
        // What else cannot be followed is no resource file and no folder: none of our business.
        if !std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return;
        }
        let Ok(canonical) = path.canonicalize() else {
            return;
        };
        if above.contains(&canonical) {
            let message = format!("leads back to {}, where it is", canonical.display());
            self.findings.push(finding(&path, "loop", &message));
        } else if above.len() >= DEPTH {
            let message = format!("more than {DEPTH} folders deep");
            self.findings.push(finding(&path, "too-deep", &message));
        } else {
            above.push(canonical);
            self.folder(&path, above);
            above.pop();
        }
    }
}

/// Editors' and Kubernetes' own files.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
