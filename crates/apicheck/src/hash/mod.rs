//! The semantic hash of files, packages and root resources (V-21, V-23 … V-25).
//!
//! Trees with the same meaning have the same hashes. Order, comments, imports, paths, spelling of
//! names and language options do not count. One edit that changes the meaning changes the hash.
//! [`docs/api-hash.md`] specifies the exact encoding, so that other programs can compute it.
//!
//! ```text
//!   elements ─► encode ─► canonical bytes ─┬─► local    of a file
//!                                          ├─► closure  of a file and the files whose types it uses
//!                                          ├─► package  of all its files together, independent of the split
//!                                          └─► root     of a message and every type in its fields
//! ```
//!
//! [`docs/api-hash.md`]: https://github.com/oxds/oxds/blob/main/docs/api-hash.md

mod digest;
mod encode;
mod node;
mod options;
mod root;

use std::collections::{BTreeMap, BTreeSet};

pub use digest::{Digest, DigestError};
use encode::{Element, Encoder, messages_of};
use node::CanonicalNode;
use rayon::prelude::*;
pub(crate) use root::reach;
pub use root::{root, roots};

use crate::model::{Extension, File, FileId, Kind, Name, Tree};

/// Default name of the file option with the version of a file.
pub const VERSION_OPTION: &str = "oxds.annotations.version";

// Domains, hashed before the bytes: hashes of different sorts are never equal.
const LOCAL: &str = "ooxds api-hash/1\0";
const CLOSURE: &str = "ooxds api-closure/1\0";
const WHOLE_PACKAGE: &str = "ooxds api-package/1\0";

/// Hashes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileHash {
    /// Import path of the file.
    pub path: Name,
    /// Hash of the declarations of the file.
    pub local: Digest,
    /// Hash of the local hash and of the closures of the files whose types it uses.
    pub closure: Digest,
    /// Hash of the declarations without options: unchanged if only options changed.
    pub shape: Digest,
}

/// Hashes of a tree.
#[derive(Debug, Clone)]
pub struct Hashes {
    files: Vec<FileHash>,
    paths: BTreeMap<Name, usize>,
    packages: BTreeMap<Name, Digest>,
}

impl Hashes {
    /// Computes the hashes of all files of `tree`. The file option `version_option` (a full name)
    /// does not count.
    #[must_use]
    pub fn of(tree: &Tree, version_option: &str) -> Hashes {
        let extensions = extensions(tree);
        let encoded: Vec<Encoded> = tree
            .files
            .par_iter()
            .map(|file| Encoded::of(tree, file, &extensions[file.id.0 as usize], version_option))
            .collect();
        let closures = closures(tree, &encoded);
        let packages = packages(tree, &encoded);
        let files: Vec<FileHash> = tree
            .files
            .iter()
            .zip(&encoded)
            .zip(closures)
            .map(|((file, encoded), closure)| FileHash {
                path: file.path.clone(),
                local: encoded.local,
                closure,
                shape: encoded.shape,
            })
            .collect();
        let paths = files
            .iter()
            .enumerate()
            .map(|(index, file)| (file.path.clone(), index))
            .collect();
        Hashes {
            files,
            paths,
            packages,
        }
    }

    /// Returns the hashes of all files, in the order of the tree.
    #[must_use]
    pub fn files(&self) -> &[FileHash] {
        &self.files
    }

    /// Returns the hashes of the file with that import path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&FileHash> {
        self.files.get(*self.paths.get(path)?)
    }

    /// Returns the hash of each package, by name. It does not depend on the split into files.
    #[must_use]
    pub fn packages(&self) -> &BTreeMap<Name, Digest> {
        &self.packages
    }
}

/// Contribution of one file to the hashes.
struct Encoded {
    local: Digest,
    shape: Digest,
    elements: Vec<Element>,
    /// Encoded options and features of the file.
    file: Vec<u8>,
    /// Files that declare the types that it uses.
    uses: BTreeSet<FileId>,
}

impl Encoded {
    fn of(tree: &Tree, file: &File, extensions: &[&Extension], version_option: &str) -> Encoded {
        let encoder = |options| Encoder {
            tree,
            version_option,
            options,
        };
        let whole = encoder(true).elements(file, extensions);
        let own = encoder(true).file(file);
        let bare = encoder(false).elements(file, extensions);
        let bare_own = encoder(false).file(file);
        Encoded {
            local: Digest::of(LOCAL, [joined(&own, &whole).as_slice()]),
            shape: Digest::of(LOCAL, [joined(&bare_own, &bare).as_slice()]),
            elements: whole,
            file: own,
            uses: uses(tree, file, extensions),
        }
    }
}

/// Returns the encoded elements of all target files, by full name.
pub(crate) fn elements(tree: &Tree) -> BTreeMap<Name, Vec<u8>> {
    let extensions = extensions(tree);
    let encoder = Encoder {
        tree,
        version_option: "",
        options: true,
    };
    let files: Vec<&File> = tree.targets().collect();
    files
        .into_par_iter()
        .flat_map_iter(|file| encoder.elements(file, &extensions[file.id.0 as usize]))
        .map(|(_, name, bytes)| (name, bytes))
        .collect()
}

/// Joins the encoded file options with the encoded elements.
fn joined(own: &[u8], elements: &[Element]) -> Vec<u8> {
    let mut node = CanonicalNode::default();
    for (tag, _, bytes) in elements {
        node.bytes(*tag, bytes);
    }
    [own, &node.finish()].concat()
}

/// Returns the extensions of each file.
fn extensions(tree: &Tree) -> Vec<Vec<&Extension>> {
    let mut all = vec![Vec::new(); tree.files.len()];
    for extension in &tree.extensions {
        all[extension.file.0 as usize].push(extension);
    }
    all
}

/// Returns the files that declare the types that `file` uses, without `file` itself.
fn uses(tree: &Tree, file: &File, extensions: &[&Extension]) -> BTreeSet<FileId> {
    let mut used = BTreeSet::new();
    for message in messages_of(tree, &file.messages) {
        used.extend(
            tree[message]
                .fields
                .iter()
                .filter_map(|field| home(tree, field.kind)),
        );
        // Map entries carry the types of keys and values.
        for entry in tree[message]
            .messages
            .iter()
            .filter(|id| tree[**id].map_entry)
        {
            used.extend(
                tree[*entry]
                    .fields
                    .iter()
                    .filter_map(|field| home(tree, field.kind)),
            );
        }
    }
    for method in file.services.iter().flat_map(|id| &tree[*id].methods) {
        used.insert(tree[method.input].file);
        used.insert(tree[method.output].file);
    }
    for extension in extensions {
        used.insert(tree[extension.extendee].file);
        used.extend(home(tree, extension.field.kind));
    }
    used.remove(&file.id);
    used
}

fn home(tree: &Tree, kind: Kind) -> Option<FileId> {
    match kind {
        Kind::Scalar(_) => None,
        Kind::Message(id) | Kind::Group(id) => Some(tree[id].file),
        Kind::Enum(id) => Some(tree[id].file),
    }
}

/// Computes the closures. Imports come before their importers, and a file uses only what it
/// imports, so one pass is enough.
fn closures(tree: &Tree, encoded: &[Encoded]) -> Vec<Digest> {
    let mut done: Vec<Digest> = Vec::with_capacity(encoded.len());
    for (file, encoded) in tree.files.iter().zip(encoded) {
        let mut used: Vec<(&Name, Digest)> = encoded
            .uses
            .iter()
            .filter(|id| **id < file.id)
            .map(|id| (&tree[*id].package, done[id.0 as usize]))
            .collect();
        used.sort_unstable();
        let mut node = CanonicalNode::default();
        for (package, closure) in used {
            node.text(1, package);
            node.bytes(2, closure.bytes());
        }
        done.push(Digest::of(CLOSURE, [encoded.local.bytes(), &node.finish()]));
    }
    done
}

fn packages(tree: &Tree, encoded: &[Encoded]) -> BTreeMap<Name, Digest> {
    let mut files: BTreeMap<&Name, Vec<&Encoded>> = BTreeMap::new();
    for (file, encoded) in tree.files.iter().zip(encoded) {
        files.entry(&file.package).or_default().push(encoded);
    }
    files
        .into_iter()
        .map(|(package, files)| {
            // Options that several files share count once, so that splitting a file changes
            // nothing.
            let own: BTreeSet<&[u8]> = files.iter().map(|file| file.file.as_slice()).collect();
            let own: Vec<u8> = own.into_iter().flatten().copied().collect();
            let mut elements: Vec<&Element> =
                files.iter().flat_map(|file| &file.elements).collect();
            elements.sort_unstable();
            let mut node = CanonicalNode::default();
            for (tag, _, bytes) in elements {
                node.bytes(*tag, bytes);
            }
            let digest = Digest::of(WHOLE_PACKAGE, [own.as_slice(), &node.finish()]);
            (package.clone(), digest)
        })
        .collect()
}
