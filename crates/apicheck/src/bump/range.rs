//! Version range of a root resource (V-26).

use std::collections::BTreeSet;

use semver::Version;

use super::version::Versions;
use crate::hash::{Digest, reach, root, roots};
use crate::model::{FileId, Message, Symbol, Tree};

/// Versions of the files behind a root resource. A client that knows all of them up to `latest`
/// knows every field; a client below `oldest` knows none of the versions (V-49).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionRange {
    /// Full name of the message.
    pub root: String,
    /// Lowest version of the files.
    pub oldest: Version,
    /// Highest version of the files.
    pub latest: Version,
    /// Number of files, with and without version.
    pub files: usize,
    /// Hash of the root resource.
    pub hash: Digest,
}

/// Returns one range for each resource of a service that has at least one file with a version.
#[must_use]
pub fn ranges(tree: &Tree, versions: &Versions) -> Vec<VersionRange> {
    roots(tree)
        .into_iter()
        .filter_map(|message| range(tree, message, versions))
        .collect()
}

fn range(tree: &Tree, message: &Message, versions: &Versions) -> Option<VersionRange> {
    let files: BTreeSet<FileId> = reach(tree, message.id)
        .values()
        .map(|symbol| match symbol {
            Symbol::Message(id) => tree[*id].file,
            Symbol::Enum(id) => tree[*id].file,
            Symbol::Service(id) => tree[*id].file,
        })
        .collect();
    let known = || {
        files
            .iter()
            .filter_map(|id| versions.get(&tree[*id].path)?.ok())
    };
    Some(VersionRange {
        root: message.name.to_string(),
        oldest: known().min()?.clone(),
        latest: known().max()?.clone(),
        files: files.len(),
        hash: root(tree, message),
    })
}
