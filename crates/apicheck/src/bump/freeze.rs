//! Frozen packages, by status and by lock (V-14).

use std::collections::BTreeSet;

use super::lock::Lock;
use crate::hash::{Digest, Hashes};
use crate::model::{File, Tree};

/// Frozen package with a changed hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenChange {
    /// Name of the package.
    pub package: String,
    /// Hash at the time of the freeze.
    pub frozen: Digest,
    /// Current hash; `None` if the package was removed.
    pub now: Option<Digest>,
}

/// Returns the packages that one of their files marks as frozen:
/// `(udpa.annotations.file_status).package_version_status = FROZEN`.
#[must_use]
pub fn frozen_by_status(tree: &Tree) -> BTreeSet<&str> {
    packages_of_status(tree, 1)
}

/// Returns the packages that were generated as a next major: `NEXT_MAJOR_VERSION_CANDIDATE`.
#[must_use]
pub fn candidates_by_status(tree: &Tree) -> BTreeSet<&str> {
    packages_of_status(tree, 3)
}

/// Returns the packages with a status, given as the number in
/// `udpa.annotations.PackageVersionStatus`.
fn packages_of_status(tree: &Tree, wanted: i32) -> BTreeSet<&str> {
    let has_it = |file: &&File| {
        let status = file.options.extension("udpa.annotations.file_status");
        let status = status.and_then(|status| status.as_message());
        status
            .and_then(|status| status.get_field_by_name("package_version_status"))
            .is_some_and(|status| status.as_enum_number() == Some(wanted))
    };
    let files = tree.targets().filter(has_it);
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
