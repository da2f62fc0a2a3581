//! What the folder holds: each file's last good resources, merged so that each has one owner.
//!
//! ```text
//!             read fails                       reads well
//!  ┌──────┐ ◀──────────── file changed ───────────────────▶ ┌───────────┐
//!  │ kept │                                                 │ candidate │
//!  └──────┘ ◀────── another file owns one of its names ──── └───────────┘
//!   last good state                                               │ no name is another file's
//!   stays served                                                  ▼
//!                                                            ┌────────┐
//!                                                            │ served │
//!                                                            └────────┘
//! ```
//!
//! Names are told apart within what all nodes see, and within each group of nodes; of two groups that are equally
//! specific and may have a node in common, only one may have a name.
//!
//! A name that moves from one file to another within one change has one owner before and one after, so it moves.
//! A name in two files belongs to the one that had it; the other file changes nothing until one of them is mended.

mod claims;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use oxds_core::group::Definition;
use oxds_core::snapshot::ResourceKey;
use oxds_types::file::Stamp;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::Options;
use super::file::{self, Item, finding};
use super::group;
use super::owners::{Changes, Owners};
use super::references::{Referrers, dangling};
use super::scan::Scan;
use super::watch::Dirty;
use crate::store::{Finding, Severity};

/// A folder's state between two changes.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    options: Options,
    files: BTreeMap<Arc<Path>, FileState>,
    owners: Owners,
    referrers: Referrers,
    /// What the last full walk could not enter.
    unwalked: Vec<Finding>,
}

#[derive(Debug, Default)]
struct FileState {
    stamp: Stamp,
    served: Vec<Item>,
    /// What it held when read last, as long as that cannot be served because of other files.
    candidate: Option<Vec<Item>>,
    /// What is wrong with the file itself.
    findings: Vec<Finding>,
    /// Names in it that other files have.
    conflicts: Vec<Finding>,
    /// References in it that lead to nothing.
    dangling: Vec<Finding>,
}

/// What a look at the folder found.
#[derive(Debug, Default)]
struct Found {
    gone: Vec<Arc<Path>>,
    /// To be read.
    changed: Vec<(Arc<Path>, Stamp)>,
}

impl Folder {
    pub(super) fn new(root: &Path, options: Options) -> Self {
        Self {
            root: root.into(),
            options,
            files: BTreeMap::new(),
            owners: Owners::default(),
            referrers: Referrers::default(),
            unwalked: Vec::new(),
        }
    }

    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Reads what changed; returns what is served differently, and all that is wrong now.
    pub(super) fn refresh(&mut self, dirty: &Dirty) -> (Changes, Vec<Finding>) {
        let Found { gone, changed } = match dirty {
            Dirty::Everything => self.walk(false),
            Dirty::Stamps => self.walk(true),
            Dirty::Files(paths) => self.look(paths),
        };
        let mut changes = Changes::default();
        for path in gone {
            if let Some(state) = self.files.remove(&path) {
                self.disown(&path, &state.served, &mut changes);
                self.undefine(&path, &mut changes);
            }
        }
        let (definitions, resources) = changed
            .into_iter()
            .partition(|(path, _)| group::is_definition(&self.root, path));
        self.define(definitions, &mut changes);
        self.read(resources);
        let accepted = self.accept();
        self.serve(&accepted, &mut changes);
        self.check_references(accepted, &changes);
        (changes, self.findings())
    }

    /// The files that are gone, and those to be read, after a walk over all of them.
    fn walk(&mut self, by_stamp: bool) -> Found {
        let scan = Scan::of(&self.root);
        // A folder that could not be entered hides its files; it did not delete them.
        let hidden = |path: &Path| scan.findings.iter().any(|f| path.starts_with(&f.file));
        let gone = self
            .files
            .keys()
            .filter(|path| !scan.files.contains_key(&***path) && !hidden(path))
            .cloned()
            .collect();
        let changed = scan
            .files
            .into_iter()
            .filter(|(path, stamp)| {
                !by_stamp
                    || self
                        .files
                        .get(path.as_path())
                        .is_none_or(|f| f.stamp != *stamp)
            })
            .map(|(path, stamp)| (Arc::from(path), stamp))
            .collect();
        self.unwalked = scan.findings;
        Found { gone, changed }
    }

    /// The same for files that are known to have changed, without a walk.
    fn look(&self, paths: &BTreeSet<PathBuf>) -> Found {
        let mut found = Found::default();
        for path in paths {
            let path: Arc<Path> = Arc::from(path.as_path());
            // A link that leads nowhere is there, and cannot be read; what is not there is gone.
            if path.symlink_metadata().is_ok() {
                let stamp = Stamp::of(&path);
                found.changed.push((path, stamp));
            } else {
                found.gone.push(path);
            }
        }
        found
    }

    /// Reads who is in which group.
    fn define(&mut self, changed: Vec<(Arc<Path>, Stamp)>, changes: &mut Changes) {
        for (path, stamp) in changed {
            let Some(name) = group::of(&self.root, &path) else {
                continue;
            };
            let defined = group::read(&path, &self.options.codec).and_then(|matcher| {
                let tie = self.owners.define(&name, matcher.clone());
                tie.map_err(|(key, other)| vec![equally_specific(&path, &key, &other)])?;
                Ok(matcher)
            });
            let state = self.files.entry(path).or_default();
            state.stamp = stamp;
            state.findings = match defined {
                Ok(matcher) => {
                    changes.group(&name).definition = Definition::Set(Box::new(matcher));
                    Vec::new()
                }
                Err(findings) => findings,
            };
        }
    }

    /// The file is gone: if it said whom a group is for, that is for nobody now.
    fn undefine(&mut self, path: &Path, changes: &mut Changes) {
        if group::is_definition(&self.root, path)
            && let Some(name) = group::of(&self.root, path)
        {
            self.owners.undefine(&name);
            changes.group(&name).definition = Definition::Unset;
        }
    }

    /// Reads files in parallel; those that read well become candidates.
    fn read(&mut self, changed: Vec<(Arc<Path>, Stamp)>) {
        let (total, done) = (changed.len(), AtomicUsize::new(0));
        let options = &self.options;
        let outcomes: Vec<_> = changed
            .into_par_iter()
            .map(|(path, stamp)| {
                let outcome = file::read(&path, &options.codec);
                if let Some(progress) = &options.progress {
                    progress(done.fetch_add(1, Relaxed) + 1, total);
                }
                (path, stamp, outcome)
            })
            .collect();
        for (path, stamp, outcome) in outcomes {
            let state = self.files.entry(path).or_default();
            state.stamp = stamp;
            state.conflicts.clear();
            match outcome {
                Ok((items, warnings)) => {
                    state.candidate = Some(items);
                    state.findings = warnings;
                }
                Err(errors) => {
                    state.candidate = None;
                    state.findings = errors;
                }
            }
        }
    }

    /// Serves the accepted candidates. All give their old names away before any takes its new ones.
    fn serve(&mut self, accepted: &BTreeSet<Arc<Path>>, changes: &mut Changes) {
        for path in accepted {
            let Some(state) = self.files.get_mut(path) else {
                continue;
            };
            state.conflicts.clear();
            let served = state.candidate.take().unwrap_or_default();
            let before = std::mem::replace(&mut state.served, served);
            self.disown(path, &before, changes);
        }
        for path in accepted {
            let scope = group::of(&self.root, path);
            let state = self.files.get(path);
            for item in state.into_iter().flat_map(|state| &state.served) {
                self.owners.insert(&scope, &key(item), path);
                self.referrers.add(path, item);
                let changes = changes.of(&scope);
                changes.upserts.push(Arc::clone(&item.resource));
            }
        }
    }

    /// Looks at the references of files that changed, and of those that refer to what came or went.
    fn check_references(&mut self, mut files: BTreeSet<Arc<Path>>, changes: &Changes) {
        for key in changes.keys() {
            files.extend(self.referrers.of(&key).cloned());
        }
        let severity = if self.options.strict {
            Severity::Error
        } else {
            Severity::Warning
        };
        for path in files {
            if let Some(state) = self.files.get_mut(&path) {
                let scope = group::of(&self.root, &path);
                let exists = |key: &ResourceKey| self.owners.sees(&scope, key);
                let items = state.served.iter();
                state.dangling = items
                    .flat_map(|item| dangling(&path, item, severity, exists))
                    .collect();
            }
        }
    }

    /// Takes a file's names away from it. A removal that another file's upsert follows changes nothing.
    fn disown(&mut self, path: &Path, items: &[Item], changes: &mut Changes) {
        let scope = group::of(&self.root, path);
        for item in items {
            self.referrers.remove(path, item);
            let key = key(item);
            if self.owners.remove(&scope, &key, path) {
                changes.of(&scope).removals.push(key);
            }
        }
    }

    /// All that is wrong, by file and place.
    fn findings(&self) -> Vec<Finding> {
        let mut findings = self.unwalked.clone();
        for state in self.files.values() {
            let all = [&state.findings, &state.conflicts, &state.dangling];
            findings.extend(all.into_iter().flatten().cloned());
        }
        findings.extend(self.owners.undefined().filter_map(|name| {
            let path = group::definition(&self.root, name);
            let why = "there is no such file: nobody sees what is in this group";
            (!self.files.contains_key(&*path)).then(|| finding(&path, "group", why))
        }));
        if self.owners.is_empty() && findings.is_empty() {
            let empty = finding(&self.root, "empty", "there is no resource in this folder");
            findings.push(Finding {
                severity: Severity::Warning,
                ..empty
            });
        }
        findings.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
        findings
    }
}

fn key(item: &Item) -> ResourceKey {
    (
        item.resource.resource_type().clone(),
        Arc::clone(item.resource.name()),
    )
}

fn equally_specific(path: &Path, (resource_type, name): &ResourceKey, other: &str) -> Finding {
    let message = format!(
        "{resource_type} {name:?} is in group {other:?} too, which would then be as specific and may have the same nodes"
    );
    finding(path, "group", &message)
}
