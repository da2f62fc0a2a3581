//! Generated files on disk: all of them, or none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Generated;

/// How a folder differs from what was generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A file is missing.
    Missing(PathBuf),
    /// A file has another text.
    Changed(PathBuf),
}

/// Why nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}; nothing was written")]
pub struct NotWritten {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system says.
    pub reason: String,
}

/// How `root` differs from the generated files: what `--check` tells.
#[must_use]
pub fn differences(root: &Path, files: &[Generated]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        match fs::read(&path) {
            Ok(text) if text == file.text.as_bytes() => {}
            Ok(_) => differences.push(Difference::Changed(path)),
            Err(_) => differences.push(Difference::Missing(path)),
        }
    }
    differences
}

/// Writes the files below `root`. Every text is written beside its place first, and moved when all
/// are there; what was moved is put back when one cannot be. Gives the paths whose text changed.
///
/// # Errors
/// When a folder or file cannot be written; the tree is as it was then.
pub fn write(root: &Path, files: &[Generated]) -> Result<Vec<PathBuf>, NotWritten> {
    let mut places: Vec<Place> = Vec::new();
    let outcome = files.iter().try_for_each(|file| {
        let path = root.join(&file.path);
        let before = fs::read(&path).ok();
        if before.as_deref() == Some(file.text.as_bytes()) {
            return Ok(());
        }
        let beside = path.with_extension("proto.new");
        places.push(Place {
            path,
            beside,
            before,
            moved: false,
        });
        write_beside(&places[places.len() - 1].beside, &file.text)
            .map_err(|error| (places.len() - 1, error))
    });
    let outcome = outcome.and_then(|()| {
        places
            .iter_mut()
            .enumerate()
            .try_for_each(|(index, place)| {
                fs::rename(&place.beside, &place.path).map_err(|error| (index, error))?;
                place.moved = true;
                Ok(())
            })
    });
    match outcome {
        Ok(()) => Ok(places.into_iter().map(|place| place.path).collect()),
        Err((index, error)) => {
            places.iter().for_each(Place::restore);
            Err(NotWritten {
                path: places[index].path.clone(),
                reason: error.to_string(),
            })
        }
    }
}

/// A file on its way into the tree.
struct Place {
    path: PathBuf,
    beside: PathBuf,
    /// What was there; none when nothing was.
    before: Option<Vec<u8>>,
    moved: bool,
}

impl Place {
    /// Puts back what was. What cannot be put back now, nothing here can.
    fn restore(&self) {
        let _ = fs::remove_file(&self.beside);
        if self.moved {
            let _ = match &self.before {
                Some(before) => fs::write(&self.path, before),
                None => fs::remove_file(&self.path),
            };
        }
    }
}

fn write_beside(beside: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = beside.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(beside, text)
}
