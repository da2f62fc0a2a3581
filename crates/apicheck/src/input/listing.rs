//! Listing of a source: all paths at once, contents on demand.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use prost::bytes::Bytes;
use rayon::prelude::*;

use super::failure::{Unusable, not_regular, unreadable};
use super::git;
use crate::model::Name;

/// Proto files (and `buf*.yaml`) of a source.
#[derive(Debug)]
pub(super) struct Listing {
    /// Relative paths with slashes, sorted.
    pub(super) paths: Vec<String>,
    /// Display name of the source.
    pub(super) place: String,
    /// Files and folders that git ignores. Their files are imported, but not checked.
    pub(super) ignored: HashSet<String>,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Folder(PathBuf),
    Git {
        repository: PathBuf,
        commit: String,
        /// Target of each path that is reached through a symbolic link.
        links: HashMap<String, String>,
    },
    Memory(HashMap<String, Bytes>),
}

impl Listing {
    /// Lists all files below a folder, except hidden folders. Links to folders outside are followed,
    /// see [`Walk`].
    pub(super) fn folder(folder: &Path) -> Result<Self, Unusable> {
        let top = folder
            .canonicalize()
            .map_err(|error| no_folder(folder, &error))?;
        let mut walk = Walk {
            top: top.clone(),
            followed: Vec::new(),
            paths: Vec::new(),
        };
        walk.folder(folder, "")?;
        walk.paths.sort_unstable();
        Ok(Self {
            paths: walk.paths,
            place: folder.display().to_string(),
            ignored: git::ignored(&top),
            files: Files::Folder(folder.to_owned()),
        })
    }

    /// Lists these files of a commit; `links` has the target of each path that is a link, or lies
    /// below one.
    pub(super) fn git(
        repository: PathBuf,
        commit: String,
        place: String,
        mut paths: Vec<String>,
        links: HashMap<String, String>,
    ) -> Self {
        paths.extend(links.keys().cloned());
        paths.sort_unstable();
        paths.dedup();
        Self {
            paths,
            place,
            ignored: HashSet::new(),
            files: Files::Git {
                repository,
                commit,
                links,
            },
        }
    }

    pub(super) fn memory(place: String, files: HashMap<String, Bytes>) -> Self {
        let mut paths: Vec<_> = files.keys().cloned().collect();
        paths.sort_unstable();
        Self {
            paths,
            place,
            ignored: HashSet::new(),
            files: Files::Memory(files),
        }
    }

    /// Returns whether git ignores a file.
    pub(super) fn ignores(&self, path: &str) -> bool {
        let outer = |path: &str| path.rfind('/');
        let mut all = std::iter::successors(Some(path), |path| Some(&path[..outer(path)?]));
        !self.ignored.is_empty() && all.any(|path| self.ignored.contains(path))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.paths
            .binary_search_by(|known| known.as_str().cmp(path))
            .is_ok()
    }

    /// Reads the contents of `paths`, in the same order.
    pub(super) fn read(&self, paths: &[String]) -> Result<Vec<Bytes>, Unusable> {
        match &self.files {
            Files::Folder(folder) => paths
                .par_iter()
                .map(|path| {
                    let path = folder.join(path);
                    std::fs::read(&path)
                        .map(Bytes::from)
                        .map_err(|error| unreadable(&path, &error))
                })
                .collect(),
            Files::Git {
                repository,
                commit,
                links,
            } => {
                let target = |path: &String| links.get(path).unwrap_or(path).clone();
                let paths: Vec<String> = paths.iter().map(target).collect();
                git::read(repository, commit, &paths)
            }
            Files::Memory(files) => Ok(paths
                .iter()
                .map(|path| files.get(path).cloned().unwrap_or_default())
                .collect()),
        }
    }

    /// Returns the display path of a file.
    pub(super) fn display(&self, path: &str) -> Name {
        match &self.files {
            Files::Folder(folder) => {
                let path = folder.join(path);
                let path = path.strip_prefix(".").unwrap_or(&path);
                path.display().to_string().into()
            }
            Files::Git { .. } => format!("{}:{path}", self.place).into(),
            Files::Memory(_) => format!("{}/{path}", self.place).into(),
        }
    }
}

/// Returns whether a file has a relevant name.
pub(super) fn is_wanted(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.ends_with(".proto") || name == "buf.yaml" || name == "buf.work.yaml"
}

/// Returns whether a link has a name that Bazel gives to links to its output.
pub(super) fn is_copy(name: &str) -> bool {
    name.starts_with("bazel-")
}

/// Walk through a folder.
///
/// A link to a folder is followed if its target lies outside of the tree: files inside are listed at
/// their own place. No target is followed twice, so cycles of links are harmless. The links that
/// Bazel makes (`bazel-bin` …) are not followed, because they lead to copies.
struct Walk {
    top: PathBuf,
    /// Targets of the links that were followed.
    followed: Vec<PathBuf>,
    paths: Vec<String>,
}

impl Walk {
    fn folder(&mut self, folder: &Path, prefix: &str) -> Result<(), Unusable> {
        let wrong = |error: std::io::Error| unreadable(folder, &error);
        let entries = std::fs::read_dir(folder).map_err(wrong)?;
        let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        // The first one of several links to a folder is followed.
        entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = match prefix {
                "" => name.to_owned(),
                _ => format!("{prefix}/{name}"),
            };
            let place = entry.path();
            let mut sort = entry.file_type().map_err(wrong)?;
            if sort.is_symlink() {
                // A dangling link is an error when it is read.
                let Ok(target) = place.metadata() else {
                    self.paths.extend(is_wanted(&path).then_some(path));
                    continue;
                };
                sort = target.file_type();
                if sort.is_dir() && !self.follows(&place, name) {
                    continue;
                }
            }
            if sort.is_dir() {
                self.folder(&place, &path)?;
            } else if is_wanted(&path) {
                if !sort.is_file() {
                    return Err(not_regular(&place));
                }
                self.paths.push(path);
            }
        }
        Ok(())
    }

    /// Returns whether the link `place` to a folder is followed.
    fn follows(&mut self, place: &Path, name: &str) -> bool {
        let Ok(target) = place.canonicalize() else {
            return false;
        };
        let is_known = |known: &PathBuf| target.starts_with(known);
        if is_copy(name) || is_known(&self.top) || self.followed.iter().any(is_known) {
            return false;
        }
        self.followed.push(target);
        true
    }
}

/// Describes a folder that cannot be read. A name without a folder is often meant as a branch.
fn no_folder(folder: &Path, error: &std::io::Error) -> Unusable {
    match error.kind() {
        std::io::ErrorKind::NotFound => Unusable::Unreadable {
            path: folder.to_owned(),
            why: format!(
                "no such folder; a commit of a repository is written .git#ref={}",
                folder.display()
            ),
        },
        _ => unreadable(folder, error),
    }
}
