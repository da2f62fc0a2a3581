//! Listing of a source: all paths at once, contents on demand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use prost::bytes::Bytes;
use rayon::prelude::*;

use super::failure::{Unusable, unreadable};
use super::git;
use crate::model::Name;

/// Proto files (and `buf*.yaml`) of a source.
#[derive(Debug)]
pub(super) struct Listing {
    /// Relative paths with slashes, sorted.
    pub(super) paths: Vec<String>,
    /// Display name of the source.
    pub(super) place: String,
    files: Files,
}

#[derive(Debug)]
enum Files {
    Folder(PathBuf),
    Git { repository: PathBuf, commit: String },
    Memory(HashMap<String, Bytes>),
}

impl Listing {
    /// Lists all files below a folder, except hidden folders. Links to folders are not followed, so
    /// link cycles are harmless.
    pub(super) fn folder(folder: &Path) -> Result<Self, Unusable> {
        let mut paths = Vec::new();
        walk(folder, "", &mut paths)?;
        paths.sort_unstable();
        Ok(Self {
            paths,
            place: folder.display().to_string(),
            files: Files::Folder(folder.to_owned()),
        })
    }

    pub(super) fn git(
        repository: PathBuf,
        commit: String,
        place: String,
        paths: Vec<String>,
    ) -> Self {
        Self {
            paths,
            place,
            files: Files::Git { repository, commit },
        }
    }

    pub(super) fn memory(place: String, files: HashMap<String, Bytes>) -> Self {
        let mut paths: Vec<_> = files.keys().cloned().collect();
        paths.sort_unstable();
        Self {
            paths,
            place,
            files: Files::Memory(files),
        }
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
            Files::Git { repository, commit } => git::read(repository, commit, paths),
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

fn walk(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<(), Unusable> {
    let unreadable = |error: std::io::Error| unreadable(folder, &error);
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let path = match prefix {
            "" => name.to_owned(),
            _ => format!("{prefix}/{name}"),
        };
        if entry.file_type().map_err(unreadable)?.is_dir() {
            walk(&entry.path(), &path, paths)?;
        } else if is_wanted(&path) {
            paths.push(path);
        }
    }
    Ok(())
}
