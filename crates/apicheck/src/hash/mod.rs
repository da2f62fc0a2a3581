//! The semantic hash of files, packages and root resources (V-21, V-23 … V-25).
//!
//! Two trees that mean the same have the same hashes, however they are written: order, comments,
//! imports, paths, spelled names and language options do not count. One edit that changes meaning
//! changes the hash. `docs/api-hash.md` has the exact form, so that others can compute it.
//!
//! ```text
//!   elements ─► encode ─► canonical bytes ─┬─► local    of a file
//!                                          ├─► closure  of a file and the files whose types it uses
//!                                          ├─► package  of all its files together, however split
//!                                          └─► root     of a message and every type in its fields
//! ```

mod digest;
mod encode;
mod node;
mod options;
mod root;

use std::collections::{BTreeMap, BTreeSet};

pub use digest::{Digest, NotADigest};
use encode::Encoder;
use node::Node;
use rayon::prelude::*;
pub(crate) use root::reach;
pub use root::{root, roots};

use crate::model::{Extension, File, FileId, Kind, MessageId, Name, Tree};

/// The file option that holds the version of a file, unless another is named.
pub const VERSION_OPTION: &str = "oxds.annotations.version";

// The names of what is hashed, in front of the bytes: no hash of one sort is one of another.
const LOCAL: &str = "ooxds api-hash/1\0";
const CLOSURE: &str = "ooxds api-closure/1\0";
const WHOLE_PACKAGE: &str = "ooxds api-package/1\0";

/// The hashes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHash {
    /// The path by which others import it.
    pub path: Name,
    /// Of what the file declares.
    pub local: Digest,
    /// Of that, and of the files that declare the types it uses, all the way down.
    pub closure: Digest,
    /// Of what it declares without options: equal when only options changed.
    pub shape: Digest,
}

/// The hashes of a tree.
#[derive(Debug, Clone)]
pub struct Hashes {
    files: Vec<FileHash>,
    paths: BTreeMap<Name, usize>,
    packages: BTreeMap<Name, Digest>,
}

impl Hashes {
    /// Hashes all files of `tree`. The file option of the full name `version_option` does not count.
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

    /// Of every file, in the order of the tree.
    #[must_use]
    pub fn files(&self) -> &[FileHash] {
        &self.files
    }

    /// Of the file of that import path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&FileHash> {
        self.files.get(*self.paths.get(path)?)
    }

    /// Of every package, by name: the same however it is split into files.
    #[must_use]
    pub fn packages(&self) -> &BTreeMap<Name, Digest> {
        &self.packages
    }
}

/// What one file adds to the hashes.
struct Encoded {
    local: Digest,
    shape: Digest,
    elements: Vec<Element>,
    /// Options and features of the file.
    file: Vec<u8>,
    /// The files that declare the types it uses.
    uses: BTreeSet<FileId>,
}

/// An encoded element: its tag, full name and bytes, which is how they sort.
type Element = (u32, Name, Vec<u8>);

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
            local: Digest::of(LOCAL, [written(&own, &whole).as_slice()]),
            shape: Digest::of(LOCAL, [written(&bare_own, &bare).as_slice()]),
            elements: whole,
            file: own,
            uses: uses(tree, file, extensions),
        }
    }
}

/// The encoded elements of all judged files, by full name.
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

/// What a file says of itself, and its elements behind it.
fn written(own: &[u8], elements: &[Element]) -> Vec<u8> {
    let mut node = Node::default();
    for (tag, _, bytes) in elements {
        node.bytes(*tag, bytes);
    }
    [own, &node.finish()].concat()
}

/// The extensions of each file.
fn extensions(tree: &Tree) -> Vec<Vec<&Extension>> {
    let mut all = vec![Vec::new(); tree.files.len()];
    for extension in &tree.extensions {
        all[extension.file.0 as usize].push(extension);
    }
    all
}

/// The files that declare the types that `file` uses, without itself.
fn uses(tree: &Tree, file: &File, extensions: &[&Extension]) -> BTreeSet<FileId> {
    let mut used = BTreeSet::new();
    for message in messages_of(tree, &file.messages) {
        used.extend(
            tree[message]
                .fields
                .iter()
                .filter_map(|field| home(tree, field.kind)),
        );
        // Map entries stand for the types of their keys and values.
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

/// Messages and all that are declared in them, map entries excepted.
fn messages_of(tree: &Tree, top: &[MessageId]) -> Vec<MessageId> {
    let mut all = Vec::new();
    let mut left: Vec<MessageId> = top.to_vec();
    while let Some(id) = left.pop() {
        if !tree[id].map_entry {
            all.push(id);
            left.extend(&tree[id].messages);
        }
    }
    all
}

/// Imports stand before those that import them, and a file uses only what it imports: one pass.
fn closures(tree: &Tree, encoded: &[Encoded]) -> Vec<Digest> {
    let mut done: Vec<Digest> = Vec::with_capacity(encoded.len());
    for (file, encoded) in tree.files.iter().zip(encoded) {
        let mut used: Vec<(&Name, Digest)> = encoded
            .uses
            .iter()
            .filter(|id| **id < file.id)
            .map(|id| (&tree[*id].package, done[id.0 as usize]))
            .collect();
        used.sort();
        let mut node = Node::default();
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
            // Options that several files share count once, so that splitting a file changes nothing.
            let own: BTreeSet<&[u8]> = files.iter().map(|file| file.file.as_slice()).collect();
            let own: Vec<u8> = own.into_iter().flatten().copied().collect();
            let mut elements: Vec<&Element> =
                files.iter().flat_map(|file| &file.elements).collect();
            elements.sort();
            let mut node = Node::default();
            for (tag, _, bytes) in elements {
                node.bytes(*tag, bytes);
            }
            let digest = Digest::of(WHOLE_PACKAGE, [own.as_slice(), &node.finish()]);
            (package.clone(), digest)
        })
        .collect()
}
