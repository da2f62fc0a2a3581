//! Whether the versions of files follow what changed in them (V-22).

use std::collections::HashSet;

use semver::Version;

use super::lock::Lock;
use super::version::{Class, Versions, major};
use crate::finding::{Finding, Severity};
use crate::hash::{FileHash, Hashes};
use crate::model::{File, Tree};
use crate::rule::Category;

/// A tree with what is known of its files.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// Its hashes.
    pub hashes: &'a Hashes,
    /// Its versions.
    pub versions: &'a Versions,
}

/// A file whose version does not follow what changed in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bump {
    /// The import path.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
    /// The version it must have; none when no version is right.
    pub to: Option<Version>,
}

/// What is wrong with the version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The file changed and its version did not, or not enough.
    Missing {
        /// How much changed.
        class: Class,
        /// The version it had.
        was: Version,
        /// The version it has.
        is: Version,
    },
    /// The version changed and the file did not.
    Needless {
        /// The version it had.
        was: Version,
        /// The version it has.
        is: Version,
    },
    /// The file broke its stable major: no version tells of that, a new major package does.
    NewMajor {
        /// The version it had.
        was: Version,
    },
    /// A file without version in a tree that has them.
    Unversioned,
    /// What stands there is no version.
    Malformed(String),
    /// The lock has the right version of the file with the hash of another text.
    Stale,
}

/// The first versions of judged files that have none: 1.0.0, or that of their major.
#[must_use]
pub fn first_versions(new: Side<'_>) -> Vec<Bump> {
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

/// Files of which `lock` has a hash that is not theirs, though no version is wrong: they changed
/// again after their version was raised. [`super::edits`] writes the hash anew.
#[must_use]
pub fn stale(new: Side<'_>, lock: &Lock, bumps: &[Bump]) -> Vec<Bump> {
    let mut stale = Vec::new();
    for (path, locked) in &lock.files {
        let differs = new
            .hashes
            .file(path)
            .is_some_and(|hash| hash.local != locked.hash);
        // A version in the file's own option does not look at the lock.
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

/// Files of the new tree whose version is wrong, by path. Nothing when neither tree has versions.
///
/// `breaking` are the findings between the two trees; those that are errors and not exempt make
/// the change of their file a major one. The local hash decides: a file whose imports changed under
/// it needs no version of its own.
#[must_use]
pub fn bumps(old: Side<'_>, new: Side<'_>, breaking: &[Finding]) -> Vec<Bump> {
    if old.versions.is_empty() && new.versions.is_empty() {
        return Vec::new();
    }
    let broken = broken_files(breaking);
    let mut bumps: Vec<Bump> = new
        .tree
        .targets()
        .filter_map(|file| judge(old, new, file, &broken))
        .collect();
    bumps.sort_by(|a, b| a.path.cmp(&b.path));
    bumps
}

/// The files, as they are displayed, in which something broke.
pub(super) fn broken_files(findings: &[Finding]) -> HashSet<&str> {
    findings
        .iter()
        .filter(|finding| is_breaking(finding))
        .filter_map(|finding| finding.new.as_ref().or(finding.old.as_ref()))
        .map(|location| location.path.as_str())
        .collect()
}

/// Whether a finding is about something that others rely on.
pub(super) fn is_breaking(finding: &Finding) -> bool {
    finding.severity == Severity::Error
        && finding.exempt.is_none()
        && finding.rule.category != Category::Policy
}

/// How much a file changed; none when its hash is the same.
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

fn judge(old: Side<'_>, new: Side<'_>, file: &File, broken: &HashSet<&str>) -> Option<Bump> {
    let path: &str = &file.path;
    let bump = |problem, to| {
        Some(Bump {
            path: path.to_owned(),
            problem,
            to,
        })
    };
    let was = match old.versions.get(path) {
        Some(Ok(version)) => Some(version),
        // A wrong text in the old tree is no reason to refuse the new one.
        Some(Err(_)) | None => None,
    };
    let first = || was.cloned().unwrap_or_else(|| first_version(file));
    let is = match new.versions.get(path) {
        Some(Ok(version)) => version,
        Some(Err(text)) => return bump(Problem::Malformed(text.to_owned()), Some(first())),
        None => return bump(Problem::Unversioned, Some(first())),
    };
    let (Some(was), Some(before)) = (was, old.hashes.file(path)) else {
        return None;
    };
    let now = new.hashes.file(path)?;
    let stable = major(&file.package).is_some_and(|(_, stable)| stable);
    let class = class_of(before, now, broken.contains(&*file.display));
    let versions = || (was.clone(), is.clone());
    match class {
        None if was == is => None,
        None => {
            let (was, is) = versions();
            bump(
                Problem::Needless {
                    was: was.clone(),
                    is,
                },
                Some(was),
            )
        }
        Some(Class::Major) if stable => bump(Problem::NewMajor { was: was.clone() }, None),
        Some(class) => {
            // Where nothing is promised, what breaks is an addition like any other.
            let class = class.min(Class::Minor);
            if class.is_told_by(was, is) {
                return None;
            }
            let to = class.next(was);
            let (was, is) = versions();
            bump(Problem::Missing { class, was, is }, Some(to))
        }
    }
}

/// The first version of a file: that of its package's major.
fn first_version(file: &File) -> Version {
    match major(&file.package) {
        Some((major, true)) => Version::new(major, 0, 0),
        _ => Version::new(0, 1, 0),
    }
}
