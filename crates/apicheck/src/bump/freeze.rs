//! Frozen packages, by status and by lock (V-14).

use std::collections::BTreeSet;

use super::lock::Lock;
use crate::hash::{Digest, Hashes};
use crate::maturity::{self, Status};
use crate::model::Tree;

/// Frozen package with a changed hash.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrozenChange {
    /// Name of the package.
    pub package: String,
    /// Hash at the time of the freeze.
    pub frozen: Digest,
    /// Current hash; `None` if the package was removed.
    pub now: Option<Digest>,
}

/// Returns the packages that one of their files marks as frozen: `package_version_status = FROZEN`
/// in `(udpa.annotations.file_status)` or `(xds.annotations.v3.file_status)`.
#[must_use]
pub fn frozen_by_status(tree: &Tree) -> BTreeSet<&str> {
    packages_of_status(tree, Status::Frozen)
}

/// Returns the packages that were generated as a next major: `NEXT_MAJOR_VERSION_CANDIDATE`.
#[must_use]
pub fn candidates_by_status(tree: &Tree) -> BTreeSet<&str> {
    packages_of_status(tree, Status::Candidate)
}

fn packages_of_status(tree: &Tree, wanted: Status) -> BTreeSet<&str> {
    let files = tree
        .targets()
        .filter(|file| maturity::status(file) == Some(wanted));
    files.map(|file| &*file.package).collect()
}

/// Error: the tree does not contain the package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown package `{0}`: expected a package of the tree")]
pub struct UnknownPackage(pub String);

/// Writes the hashes of packages into `lock`. A package that is already frozen keeps its hash, so
/// that a second freeze hides no change. Returns all frozen packages that changed.
///
/// # Errors
/// Fails if the tree lacks one of the packages; then no package is frozen.
pub fn freeze(
    hashes: &Hashes,
    packages: &[&str],
    lock: &mut Lock,
) -> Result<Vec<FrozenChange>, UnknownPackage> {
    let known = |package: &&str| match hashes.packages().get(*package) {
        Some(digest) => Ok((package.to_string(), *digest)),
        None => Err(UnknownPackage(package.to_string())),
    };
    let found: Vec<(String, Digest)> = packages.iter().map(known).collect::<Result<_, _>>()?;
    for (package, digest) in found {
        lock.frozen.entry(package).or_insert(digest);
    }
    Ok(changed_since_freeze(hashes, lock))
}

/// Returns the changed packages among those frozen in `lock`, by name. Comments and formatting are
/// not changes.
#[must_use]
pub fn changed_since_freeze(hashes: &Hashes, lock: &Lock) -> Vec<FrozenChange> {
    lock.frozen
        .iter()
        .filter_map(|(package, frozen)| {
            let now = hashes.packages().get(package.as_str()).copied();
            (now != Some(*frozen)).then(|| FrozenChange {
                package: package.clone(),
                frozen: *frozen,
                now,
            })
        })
        .collect()
}
