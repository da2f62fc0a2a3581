//! The versions behind a root resource (V-26).

use std::collections::BTreeSet;

use semver::Version;

use super::version::Versions;
use crate::hash::{Digest, reach, root, roots};
use crate::model::{FileId, Message, Symbol, Tree};

/// The versions of the files that a root resource is made of: a client that knows all of them up to
/// `latest` knows every field, one below `oldest` knows none of the versions (V-49).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The message.
    pub root: String,
    /// The lowest version.
    pub oldest: Version,
    /// The highest version.
    pub latest: Version,
    /// How many files there are, with and without version.
    pub files: usize,
    /// The hash of the root.
    pub hash: Digest,
}

/// One range for each message that a service hands out and of which a file has a version.
#[must_use]
pub fn ranges(tree: &Tree, versions: &Versions) -> Vec<Range> {
    roots(tree)
        .into_iter()
        .filter_map(|message| range(tree, message, versions))
        .collect()
}

fn range(tree: &Tree, message: &Message, versions: &Versions) -> Option<Range> {
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
    Some(Range {
        root: message.name.to_string(),
        oldest: known().min()?.clone(),
        latest: known().max()?.clone(),
        files: files.len(),
        hash: root(tree, message),
    })
}
