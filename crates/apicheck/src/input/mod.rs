//! Sources of trees: folders, commits, descriptor sets, crates.
//!
//! ```text
//!   folder ── buf.yaml? ─┐
//!   .git#ref=…          ─┼─► listing: paths, bytes on demand ─► gather ─► Tree
//!   crate:NAME@VERSION  ─┘                                   (imports on demand)
//!   set.binpb ─────────────► descriptors ─────────────────────────────► Tree
//! ```
//!
//! No registry is queried, and only git itself may use the network. The imports of a tree must lie
//! beside it, in an include folder, or in `google/protobuf/`, which is built in.
//!
//! An import that is not found below the top of the tree can reveal a further root: if the path of
//! some file ends with the import, the prefix is a root. So trees that carry their dependencies in
//! folders of their own (`xds/udpa/…`, `googleapis/google/…`) need no configuration.

mod archive;
mod commit;
mod failure;
mod gather;
mod git;
mod listing;
mod modules;
mod set;
mod source;

use std::path::Path;

use prost::bytes::Bytes;

pub use commit::{Base, as_of, merge_base};
pub use failure::{Failure, Unusable};
pub use source::{Input, LoadOptions, Revision};

use crate::buf::Ignores;
use crate::model::Tree;
use crate::paths::{clean, join};
use listing::Listing;

/// Reads the tree of an input.
///
/// # Errors
/// [`Failure::Unusable`] if the input cannot be read (unknown ref, crate not fetched, truncated
/// set), [`Failure::Compile`] if the files do not compile.
pub fn load(input: &Input, options: &LoadOptions) -> Result<Tree, Failure> {
    match input {
        Input::Folder(folder) => {
            let listing = Listing::folder(folder)?;
            let modules = modules::of(&listing)?;
            gather::gather(&listing, modules, None, options)
        }
        Input::Git {
            repository,
            revision,
            subdir,
        } => {
            let top = clean(subdir.as_deref().unwrap_or_default());
            let listing = commit::listing(repository, revision, &top, &listing::is_wanted)?;
            let modules = match subdir {
                Some(_) => None,
                None => modules::of(&listing)?,
            };
            gather::gather(&listing, modules, subdir.as_deref(), options)
        }
        Input::Crate {
            name,
            version,
            subdir,
        } => {
            let listing = archive::listing(name, version)?;
            gather::gather(&listing, None, subdir.as_deref(), options)
        }
        Input::Set(path) => set::load(path, options),
    }
}

/// Reads the tree of an encoded `google.protobuf.FileDescriptorSet`.
///
/// # Errors
/// Fails like [`load`].
pub fn tree_of_set(bytes: &[u8]) -> Result<Tree, Failure> {
    set::tree(bytes, Path::new("set"), &LoadOptions::default())
}

/// Reads a file at the top of an input, such as its lock. Returns `None` if it does not exist.
///
/// # Errors
/// Fails if the input cannot be read.
pub fn read_top_file(input: &Input, name: &str) -> Result<Option<Vec<u8>>, Unusable> {
    match input {
        Input::Folder(folder) => {
            let path = folder.join(name);
            match std::fs::metadata(&path) {
                Ok(found) if !found.is_file() => return Err(failure::not_regular(&path)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                _ => {}
            }
            let bytes = std::fs::read(&path);
            bytes
                .map(Some)
                .map_err(|error| failure::unreadable(&path, &error))
        }
        Input::Git {
            repository,
            revision,
            subdir,
        } => {
            let path = join(subdir.as_deref().unwrap_or_default(), name);
            commit::file(repository, revision, &path)
        }
        Input::Set(_) | Input::Crate { .. } => Ok(None),
    }
}

/// Reads the files of a commit below the subfolder of the input that `wanted` selects by their paths from the top of
/// the repository. Returns their paths below that folder, and their contents; `None` if the input is not a commit.
///
/// # Errors
/// The commit is unknown, or lacks the subfolder; git fails.
pub fn commit_files(
    input: &Input,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Option<Vec<(String, Bytes)>>, Unusable> {
    let Input::Git {
        repository,
        revision,
        subdir,
    } = input
    else {
        return Ok(None);
    };
    let top = clean(subdir.as_deref().unwrap_or_default());
    commit::files(repository, revision, &top, wanted).map(Some)
}

/// Reads the ignored rules and paths from the `buf.yaml` of a folder. Other inputs have none.
///
/// # Errors
/// Fails if `buf.yaml` is invalid.
pub fn buf_ignores(input: &Input) -> Result<Ignores, Unusable> {
    let Input::Folder(folder) = input else {
        return Ok(Ignores::default());
    };
    let modules = modules::of(&Listing::folder(folder)?)?;
    Ok(modules.unwrap_or_default().ignores)
}
