//! The files of a folder: which of them changed, and their contents as documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use oxds_types::file::{self, ReadError, Stamp};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::options::{Options, Progress};
use super::scan::Scan;
use super::watch::Dirty;
use crate::store::documents::{
    Document, DocumentDecoder, DocumentId, DocumentOptions, Documents, Edits,
};
use crate::store::finding::Finding;
use crate::store::update::Update;

/// The state of a folder between two changes.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    progress: FolderProgress,
    stamps: BTreeMap<DocumentId, Stamp>,
    documents: Documents,
}

/// The callback for progress, if there is one.
struct FolderProgress(Option<Progress>);

/// The files that changed since the previous look.
#[derive(Debug, Default)]
struct ChangedFiles {
    deleted: Vec<DocumentId>,
    /// New and changed files, not read yet.
    changed: Vec<(DocumentId, Stamp)>,
}

impl Folder {
    pub(super) fn new(root: &Path, options: Options) -> Self {
        let Options {
            codec,
            strict,
            progress,
        } = options;
        Self {
            root: root.into(),
            progress: FolderProgress(progress),
            stamps: BTreeMap::new(),
            documents: Documents::new(root, DocumentOptions { codec, strict }),
        }
    }

    /// Returns the number of files.
    pub(super) fn files(&self) -> usize {
        self.stamps.len()
    }

    /// Reads the files that changed, and returns what is served differently with all findings.
    pub(super) fn refresh(&mut self, dirty: &Dirty) -> Update {
        let ChangedFiles { deleted, changed } = match dirty {
            Dirty::Everything => self.walk(false),
            Dirty::Stamps => self.walk(true),
            Dirty::Files(paths) => Self::look(paths),
        };
        let mut edits = Edits::default();
        for id in deleted {
            self.stamps.remove(&id);
            edits = edits.delete(id);
        }
        let documents = read(&changed, self.documents.decoder(), &self.progress);
        for document in documents {
            edits = edits.put(document);
        }
        self.stamps.extend(changed);
        self.documents.apply(edits)
    }

    /// Walks over all files and returns those that changed: all of them, or only those with another stamp.
    fn walk(&mut self, by_stamp: bool) -> ChangedFiles {
        let scan = Scan::of(&self.root);
        // A folder that cannot be read hides its files. They are not deleted.
        let hidden = |path: &Path| scan.findings.iter().any(|f| path.starts_with(&f.file));
        let deleted = self
            .stamps
            .keys()
            .filter(|path| !scan.files.contains_key(&***path) && !hidden(path))
            .cloned()
            .collect();
        let changed = scan
            .files
            .into_iter()
            .filter(|(path, stamp)| !by_stamp || self.stamps.get(path.as_path()) != Some(stamp))
            .map(|(path, stamp)| (Arc::from(path), stamp))
            .collect();
        self.documents.set_source_findings(scan.findings);
        ChangedFiles { deleted, changed }
    }

    /// Looks at files that are known to have changed, without a walk.
    fn look(paths: &BTreeSet<PathBuf>) -> ChangedFiles {
        let mut files = ChangedFiles::default();
        for path in paths {
            let path: DocumentId = Arc::from(path.as_path());
            // A link to nothing exists, and is reported as unreadable. A path without a file is a deleted file.
            if path.symlink_metadata().is_ok() {
                let stamp = Stamp::of(&path);
                files.changed.push((path, stamp));
            } else {
                files.deleted.push(path);
            }
        }
        files
    }
}

/// Reads and decodes files in parallel.
fn read(
    files: &[(DocumentId, Stamp)],
    decoder: &DocumentDecoder,
    progress: &FolderProgress,
) -> Vec<Document> {
    let (total, done) = (files.len(), AtomicUsize::new(0));
    files
        .into_par_iter()
        .map(|(path, _)| {
            let document = read_one(path, decoder);
            if let Some(progress) = &progress.0 {
                progress(done.fetch_add(1, Relaxed) + 1, total);
            }
            document
        })
        .collect()
}

fn read_one(path: &DocumentId, decoder: &DocumentDecoder) -> Document {
    match file::read(path, decoder.max_bytes()) {
        Ok(bytes) => decoder.decode(Arc::clone(path), &bytes),
        Err(error) => {
            let rule = match error {
                ReadError::TooLarge(_) => "too-large",
                _ => "unreadable",
            };
            Document::unreadable(
                Arc::clone(path),
                Finding::of_rule(path, rule, &error.to_string()),
            )
        }
    }
}

impl std::fmt::Debug for FolderProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FolderProgress").finish_non_exhaustive()
    }
}
