//! Sources of trees, as typed on the command line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::failure::Unusable;
use crate::paths::clean;

/// Source of a tree, as typed on the command line.
///
/// | typed | source |
/// |---|---|
/// | `api`, `.` | a folder; its `buf.yaml` or `buf.work.yaml` lists its modules |
/// | `.git#branch=main`, `api/.git#tag=v1,subdir=proto`, `.#ref=1a2b3c` | a commit of a repository |
/// | `set.binpb`, `set.pb`, `set.json` | a `google.protobuf.FileDescriptorSet` |
/// | `crate:envoy-types@0.7.7`, `crate:data-plane-api@0.1.1#subdir=data-plane-api` | a crate that cargo has fetched |
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// Folder of the file system.
    Folder(PathBuf),
    /// Commit of a repository.
    Git {
        /// Repository, or any folder in it.
        repository: PathBuf,
        /// Commit that is read.
        revision: Revision,
        /// Folder with the target files. Imports may lie outside.
        subdir: Option<String>,
    },
    /// Descriptor set: binary, or JSON if the file name ends with `.json`.
    Set(PathBuf),
    /// Crate in cargo's home.
    Crate {
        /// Name of the crate.
        name: String,
        /// Version of the crate.
        version: String,
        /// Folder with the target files. Imports may lie outside.
        subdir: Option<String>,
    },
}

/// Name of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revision {
    /// Branch of the repository or of `origin`.
    Branch(String),
    /// Tag of the repository.
    Tag(String),
    /// Any other revision of git: a hash, `HEAD~3`.
    Ref(String),
}

/// Options for reading a tree.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Folders that are searched for imports, each as a root. Their files are not targets.
    pub includes: Vec<PathBuf>,
    /// Only files below these paths, from the top of the tree, are targets; if empty, all files that
    /// git does not ignore.
    pub paths: Vec<String>,
    /// Files below these paths are not targets.
    pub excludes: Vec<String>,
}

impl Input {
    /// Converts a display path into a path from the top of the input. Returns `None` if the file
    /// belongs to another input.
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
        if text.contains("://") || text.starts_with("git@") {
            return Err(Unusable::Spelling {
                input: text.to_owned(),
                why: "remote repositories are not read: fetch the branch with git, then write \
                      .git#ref=origin/BRANCH"
                    .to_owned(),
            });
        }
        let (place, fragment) = match text.split_once('#') {
            Some((place, fragment)) => (place, Some(fragment)),
            None => (text, None),
        };
        let mut revision = None;
        let mut subdir = None;
        for part in fragment.iter().flat_map(|fragment| fragment.split(',')) {
            let unknown = || Unusable::Spelling {
                input: text.to_owned(),
                why: format!("unknown part {part:?}: expected branch=, tag=, ref= or subdir="),
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
                why: "missing crate version: expected crate:NAME@VERSION".to_owned(),
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
