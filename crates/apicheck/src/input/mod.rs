//! Where trees come from.
//!
//! ```text
//!   folder ── buf.yaml? ─┐
//!   .git#ref=…          ─┼─► listing: paths, bytes on demand ─► gather ─► Tree
//!   crate:NAME@VERSION  ─┘                                   (imports as they are needed)
//!   set.binpb ─────────────► descriptors ─────────────────────────────► Tree
//! ```
//!
//! No registry is asked and no network is used but git's own: what a tree imports lies beside it, in
//! a folder given as an include, or in `google/protobuf/`, which every compiler has.
//!
//! An import that is not found below the root of the tree makes its own root: when some file's path
//! ends with it, what stands before is a root, too. So trees that carry their dependencies in
//! folders of their own (`xds/udpa/…`, `googleapis/google/…`) are read as they are.

mod archive;
mod failure;
mod gather;
mod git;
mod listing;
mod modules;
mod set;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use failure::{Failure, Unusable};
pub use git::{Base, as_of, merge_base};
pub(crate) use modules::{clean, is_below, join};

use crate::buf::Ignores;
use crate::model::Tree;
use listing::Listing;

/// A place to read a tree from, as people type it.
///
/// | typed | read |
/// |---|---|
/// | `api`, `.` | a folder; its `buf.yaml` or `buf.work.yaml` says where modules lie |
/// | `.git#branch=main`, `api/.git#tag=v1,subdir=proto`, `.#ref=1a2b3c` | a commit of a repository |
/// | `set.binpb`, `set.pb`, `set.json` | a `google.protobuf.FileDescriptorSet` |
/// | `crate:envoy-types@0.7.7`, `crate:data-plane-api@0.1.1#subdir=data-plane-api` | a crate that cargo has fetched |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A folder.
    Folder(PathBuf),
    /// A commit of a repository.
    Git {
        /// The repository, or any folder in it.
        repository: PathBuf,
        /// Which commit.
        revision: Revision,
        /// The folder that is judged; what it imports may lie outside.
        subdir: Option<String>,
    },
    /// A descriptor set, by the ending of its name binary or JSON.
    Set(PathBuf),
    /// A crate in cargo's home.
    Crate {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// The folder that is judged; what it imports may lie outside.
        subdir: Option<String>,
    },
}

/// A way to name a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// A branch, here or at `origin`.
    Branch(String),
    /// A tag.
    Tag(String),
    /// Whatever git understands: a hash, `HEAD~3`.
    Ref(String),
}

/// How to read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Folders in which imports are looked for, each a root. Nothing in them is judged.
    pub includes: Vec<PathBuf>,
    /// Only files below these paths are judged; all when empty. Paths as in the tree, from its top.
    pub paths: Vec<String>,
    /// Files below these paths are not judged.
    pub excludes: Vec<String>,
}

/// Reads a tree.
///
/// # Errors
/// [`Failure::Unusable`] when there is nothing to read (an unknown ref, a crate that was not
/// fetched, a set cut short), [`Failure::Mistakes`] when what is there does not compile.
pub fn load(input: &Input, options: &Options) -> Result<Tree, Failure> {
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
            let listing = git::listing(repository, revision)?;
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

/// The tree of an encoded `google.protobuf.FileDescriptorSet`.
///
/// # Errors
/// As [`load`].
pub fn tree_of_set(bytes: &[u8]) -> Result<Tree, Failure> {
    set::tree(bytes, Path::new("set"), &Options::default())
}

/// The bytes of a file at the top of an input, such as its lock; none when there is none.
///
/// # Errors
/// When the input cannot be read at all.
pub fn beside(input: &Input, name: &str) -> Result<Option<Vec<u8>>, Unusable> {
    match input {
        Input::Folder(folder) => {
            let path = folder.join(name);
            match std::fs::read(&path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(listing::unreadable(&path, &error)),
            }
        }
        Input::Git {
            repository,
            revision,
            subdir,
        } => {
            let path = join(subdir.as_deref().unwrap_or_default(), name);
            git::file(repository, revision, &path)
        }
        Input::Set(_) | Input::Crate { .. } => Ok(None),
    }
}

/// What the `buf.yaml` of a folder leaves out; nothing for other inputs.
///
/// # Errors
/// When it is no `buf.yaml`.
pub fn buf_ignores(input: &Input) -> Result<Ignores, Unusable> {
    let Input::Folder(folder) = input else {
        return Ok(Ignores::default());
    };
    let modules = modules::of(&Listing::folder(folder)?)?;
    Ok(modules.unwrap_or_default().ignores)
}

impl Input {
    /// The path of a file from the top of the input, from the way it is displayed; none when it is
    /// of another place.
    #[must_use]
    pub fn within<'a>(&self, display: &'a str) -> Option<&'a str> {
        let inside = |path: &'a str, folder: &str| match clean(folder).as_str() {
            "" => Some(path),
            _ if Path::new(folder).is_absolute() => {
                path.strip_prefix(folder)?.trim_start_matches('/').into()
            }
            folder => path.strip_prefix(folder)?.strip_prefix('/'),
        };
        match self {
            Self::Folder(folder) => inside(display, folder.to_str()?),
            Self::Git { subdir, .. } => {
                let (_, path) = display.split_once(':')?;
                inside(path, subdir.as_deref().unwrap_or_default())
            }
            Self::Set(_) => Some(display),
            Self::Crate { subdir, .. } => {
                let (_, path) = display.split_once('/')?;
                inside(path, subdir.as_deref().unwrap_or_default())
            }
        }
    }
}

impl FromStr for Input {
    type Err = Unusable;

    fn from_str(text: &str) -> Result<Self, Unusable> {
        let (place, fragment) = match text.split_once('#') {
            Some((place, fragment)) => (place, Some(fragment)),
            None => (text, None),
        };
        let mut revision = None;
        let mut subdir = None;
        for part in fragment.iter().flat_map(|fragment| fragment.split(',')) {
            let unknown = || Unusable::Spelling {
                input: text.to_owned(),
                why: format!("{part:?} is none of branch=, tag=, ref=, subdir="),
            };
            let (key, value) = part.split_once('=').ok_or_else(unknown)?;
            let value = value.to_owned();
            match key {
                "branch" => revision = Some(Revision::Branch(value)),
                "tag" => revision = Some(Revision::Tag(value)),
                "ref" | "commit" => revision = Some(Revision::Ref(value)),
                "subdir" => subdir = Some(value.trim_matches('/').to_owned()),
                _ => return Err(unknown()),
            }
        }
        if let Some(package) = place.strip_prefix("crate:") {
            let (name, version) = package.split_once('@').ok_or_else(|| Unusable::Spelling {
                input: text.to_owned(),
                why: "a crate needs its version: crate:NAME@VERSION".to_owned(),
            })?;
            return Ok(Self::Crate {
                name: name.to_owned(),
                version: version.to_owned(),
                subdir,
            });
        }
        let path = Path::new(place);
        let is_git = revision.is_some() || path.file_name().is_some_and(|name| name == ".git");
        if is_git {
            return Ok(Self::Git {
                repository: path.to_owned(),
                revision: revision.unwrap_or(Revision::Ref("HEAD".to_owned())),
                subdir,
            });
        }
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("binpb" | "pb" | "bin" | "desc" | "fds" | "json") if !path.is_dir() => {
                Ok(Self::Set(path.to_owned()))
            }
            _ => Ok(Self::Folder(match subdir {
                Some(subdir) => path.join(subdir),
                None => path.to_owned(),
            })),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subdir = match self {
            Self::Folder(path) | Self::Set(path) => return write!(f, "{}", path.display()),
            Self::Git {
                repository,
                revision,
                subdir,
            } => {
                write!(f, "{}#{revision}", repository.display())?;
                subdir.as_ref().map(|subdir| (',', subdir))
            }
            Self::Crate {
                name,
                version,
                subdir,
            } => {
                write!(f, "crate:{name}@{version}")?;
                subdir.as_ref().map(|subdir| ('#', subdir))
            }
        };
        match subdir {
            Some((before, subdir)) => write!(f, "{before}subdir={subdir}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(name) => write!(f, "branch={name}"),
            Self::Tag(name) => write!(f, "tag={name}"),
            Self::Ref(name) => write!(f, "ref={name}"),
        }
    }
}
