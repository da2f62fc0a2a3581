//! Packages that must not change any more (V-14).

use std::collections::BTreeSet;

use super::lock::Lock;
use crate::hash::{Digest, Hashes};
use crate::model::{File, Tree};

/// A frozen package that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenChange {
    /// Its name.
    pub package: String,
    /// Its hash when it was frozen.
    pub frozen: Digest,
    /// Its hash now; none when it is gone.
    pub now: Option<Digest>,
}

/// The packages that say of themselves that they are frozen:
/// `(udpa.annotations.file_status).package_version_status = FROZEN` in one of their files.
#[must_use]
pub fn frozen_by_status(tree: &Tree) -> BTreeSet<&str> {
    packages_of_status(tree, 1)
}

/// The packages that a next major has made: `NEXT_MAJOR_VERSION_CANDIDATE`.
#[must_use]
pub fn candidates_by_status(tree: &Tree) -> BTreeSet<&str> {
    packages_of_status(tree, 3)
}

/// By the number of `udpa.annotations.PackageVersionStatus`.
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

/// A package that is not in the tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no package `{0}` to freeze")]
pub struct UnknownPackage(pub String);

/// Freezes packages: writes their hashes into `lock`. A package that is frozen already keeps the
/// hash it was frozen at, so that freezing twice hides no change; those are what comes back.
///
/// # Errors
/// When the tree has no such package; nothing is frozen then.
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

/// The frozen packages of `lock` that changed, by name. Comments and formatting do not change one.
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
