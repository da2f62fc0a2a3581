//! Comparison of file versions with file changes (V-22).

use std::collections::HashSet;

use semver::Version;

use super::lock::Lock;
use super::version::{Class, Versions};
use crate::finding::{Finding, Severity};
use crate::hash::{FileHash, Hashes};
use crate::model::{File, Tree};
use crate::package::{PackageName, Stage};
use crate::rule::Category;

/// A tree with its hashes and versions.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct VersionedTree<'a> {
    /// Tree of the packages.
    pub tree: &'a Tree,
    /// Hashes of the tree.
    pub hashes: &'a Hashes,
    /// Versions of its files.
    pub versions: &'a Versions,
}

impl<'a> VersionedTree<'a> {
    /// Returns a tree with its hashes and versions.
    #[must_use]
    pub fn new(tree: &'a Tree, hashes: &'a Hashes, versions: &'a Versions) -> Self {
        Self {
            tree,
            hashes,
            versions,
        }
    }
}

/// File whose version does not match its change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bump {
    /// Import path of the file.
    pub path: String,
    /// Cause of the mismatch.
    pub problem: Problem,
    /// Required version; `None` if no version is correct.
    pub to: Option<Version>,
}

/// Mismatch between the version and the change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file changed, but its version did not grow, or not enough.
    Missing {
        /// Size of the change.
        class: Class,
        /// Version in the old tree.
        earlier: Version,
        /// Version in the new tree.
        current: Version,
    },
    /// The version changed, but the file did not.
    Needless {
        /// Version in the old tree.
        earlier: Version,
        /// Version in the new tree.
        current: Version,
    },
    /// The file broke its stable major. That needs a new major package instead of a new version.
    NewMajor {
        /// Version in the old tree.
        earlier: Version,
    },
    /// The file has no version, but other files of the tree have one.
    Unversioned,
    /// The text is not a version.
    Malformed(String),
    /// The lock has the current version with the hash of another text.
    Stale,
}

/// Returns the first versions of target files without a version: that of their stable major, else
/// 0.1.0.
#[must_use]
pub fn first_versions(new: VersionedTree<'_>) -> Vec<Bump> {
    let without = new
        .tree
        .targets()
        .filter(|file| new.versions.get(&file.path).is_none());
    without
        .map(|file| Bump {
            path: file.path.to_string(),
            problem: Problem::Unversioned,
            to: Some(first_version(file)),
        })
        .collect()
}

/// Returns the files for which `lock` has an outdated hash under a correct version: they changed
/// again after the bump. [`super::edits`] updates the hash.
#[must_use]
pub fn stale(new: VersionedTree<'_>, lock: &Lock, bumps: &[Bump]) -> Vec<Bump> {
    let mut stale = Vec::new();
    for (path, locked) in &lock.files {
        let differs = new
            .hashes
            .file(path)
            .is_some_and(|hash| hash.local != locked.hash);
        // A version in the file's own option does not depend on the lock.
        let governs =
            matches!(new.versions.get(path), Some(Ok(version)) if *version == locked.version);
        if differs && governs && !bumps.iter().any(|bump| bump.path == *path) {
            stale.push(Bump {
                path: path.clone(),
                problem: Problem::Stale,
                to: Some(locked.version.clone()),
            });
        }
    }
    stale
}

/// Returns the files of the new tree with a wrong version, by path. Returns nothing if neither tree
/// has versions.
///
/// `breaking` has the findings between the two trees. Errors that are not exempt make the change of
/// their file a major one. Only the local hash matters: a file does not need a new version when one
/// of its imports changes.
#[must_use]
pub fn bumps(old: VersionedTree<'_>, new: VersionedTree<'_>, breaking: &[Finding]) -> Vec<Bump> {
    if old.versions.is_empty() && new.versions.is_empty() {
        return Vec::new();
    }
    let broken = broken_files(breaking);
    let mut bumps: Vec<Bump> = new
        .tree
        .targets()
        .filter_map(|file| required_bump(old, new, file, &broken))
        .collect();
    bumps.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    bumps
}

/// Returns the display paths of the files with a breaking finding.
pub(super) fn broken_files(findings: &[Finding]) -> HashSet<&str> {
    findings
        .iter()
        .filter(|finding| is_breaking(finding))
        .filter_map(|finding| finding.new.as_ref().or(finding.old.as_ref()))
        .map(|location| location.path.as_str())
        .collect()
}

/// Returns whether a finding is about a broken promise: an error that is not exempt and not about
/// policy.
pub(super) fn is_breaking(finding: &Finding) -> bool {
    finding.severity == Severity::Error
        && finding.exempt.is_none()
        && finding.rule.category != Category::Policy
}

/// Returns the size of a file's change, or `None` if the hashes are equal.
pub(super) fn class_of(old: &FileHash, new: &FileHash, breaking: bool) -> Option<Class> {
    if old.local == new.local {
        None
    } else if breaking {
        Some(Class::Major)
    } else if old.shape == new.shape {
        Some(Class::Patch)
    } else {
        Some(Class::Minor)
    }
}

fn required_bump(
    old: VersionedTree<'_>,
    new: VersionedTree<'_>,
    file: &File,
    broken: &HashSet<&str>,
) -> Option<Bump> {
    let path: &str = &file.path;
    let bump = |problem, to| {
        Some(Bump {
            path: path.to_owned(),
            problem,
            to,
        })
    };
    let earlier = match old.versions.get(path) {
        Some(Ok(version)) => Some(version),
        // A malformed version in the old tree does not invalidate the new one.
        Some(Err(_)) | None => None,
    };
    let first = || earlier.cloned().unwrap_or_else(|| first_version(file));
    let current = match new.versions.get(path) {
        Some(Ok(version)) => version,
        Some(Err(text)) => return bump(Problem::Malformed(text.to_owned()), Some(first())),
        None => return bump(Problem::Unversioned, Some(first())),
    };
    let (Some(earlier), Some(before)) = (earlier, old.hashes.file(path)) else {
        return None;
    };
    let now = new.hashes.file(path)?;
    let stable = stable_major(file).is_some();
    let class = class_of(before, now, broken.contains(&*file.display));
    let versions = || (earlier.clone(), current.clone());
    match class {
        // Without a change of the hash, the version must not change either (V-22).
        None if earlier == current => None,
        None => {
            let (earlier, current) = versions();
            bump(
                Problem::Needless {
                    earlier: earlier.clone(),
                    current,
                },
                Some(earlier),
            )
        }
        // Stable-API policy: a breaking change of a stable major needs a new major package (V-22).
        Some(Class::Major) if stable => bump(
            Problem::NewMajor {
                earlier: earlier.clone(),
            },
            None,
        ),
        Some(class) => {
            // In an unstable package, a breaking change counts like an addition.
            let class = class.min(Class::Minor);
            if class.is_covered_by(earlier, current) {
                return None;
            }
            let to = class.next(earlier);
            let (earlier, current) = versions();
            bump(
                Problem::Missing {
                    class,
                    earlier,
                    current,
                },
                Some(to),
            )
        }
    }
}

/// Returns the first version of a file: that of its package's stable major, else 0.1.0.
fn first_version(file: &File) -> Version {
    match stable_major(file) {
        Some(major) => Version::new(major, 0, 0),
        None => Version::new(0, 1, 0),
    }
}

/// Returns the major of the package of a file, if it is stable.
fn stable_major(file: &File) -> Option<u64> {
    let version = PackageName::of(&file.package).version?;
    (version.stage == Stage::Stable).then(|| version.major.into())
}
