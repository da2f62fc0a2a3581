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

/// Writes files below `root`: [`apply`] without anything to remove.
///
/// # Errors
/// As [`apply`].
pub fn write(root: &Path, files: &[Generated]) -> Result<Vec<PathBuf>, NotWritten> {
    apply(root, files, &[])
}

/// Writes files below `root` and removes others. Every text is written beside its place first, and
/// moved when all are there; then the others go, with the folders that they leave empty. What was done
/// is undone when one step fails. Gives the paths whose text changed.
///
/// # Errors
/// When a file cannot be written or removed; the tree is as it was then.
pub fn apply(
    root: &Path,
    files: &[Generated],
    removed: &[String],
) -> Result<Vec<PathBuf>, NotWritten> {
    let mut places: Vec<Place> = Vec::new();
    match steps(root, files, removed, &mut places) {
        Ok(()) => {
            let written = places.iter().filter(|place| place.beside.is_some());
            Ok(written.map(|place| place.path.clone()).collect())
        }
        Err((path, error)) => {
            places.iter().for_each(Place::restore);
            Err(NotWritten {
                path,
                reason: error.to_string(),
            })
        }
    }
}

/// All that is done, noted in `places` as it is done.
fn steps(
    root: &Path,
    files: &[Generated],
    removed: &[String],
    places: &mut Vec<Place>,
) -> Result<(), (PathBuf, io::Error)> {
    for file in files {
        let path = root.join(&file.path);
        let before = fs::read(&path).ok();
        if before.as_deref() != Some(file.text.as_bytes()) {
            let beside = path.with_extension("proto.new");
            places.push(Place {
                path: path.clone(),
                beside: Some(beside.clone()),
                before,
                done: false,
            });
            write_beside(&beside, &file.text).map_err(|error| (path, error))?;
        }
    }
    for path in removed {
        let path = root.join(path);
        let before = fs::read(&path).map_err(|error| (path.clone(), error))?;
        places.push(Place {
            path,
            beside: None,
            before: Some(before),
            done: false,
        });
    }
    for place in places.iter_mut() {
        let done = match &place.beside {
            Some(beside) => fs::rename(beside, &place.path),
            None => fs::remove_file(&place.path),
        };
        done.map_err(|error| (place.path.clone(), error))?;
        place.done = true;
    }
    for place in places.iter().filter(|place| place.beside.is_none()) {
        // A folder that is not empty is not removed.
        let _ = place.path.parent().map(fs::remove_dir);
    }
    Ok(())
}

/// A file that gets a new text, or goes.
struct Place {
    path: PathBuf,
    /// Where the new text waits; none when the file goes.
    beside: Option<PathBuf>,
    /// What was there; none when nothing was.
    before: Option<Vec<u8>>,
    done: bool,
}

impl Place {
    /// Puts back what was. What cannot be put back now, nothing here can.
    fn restore(&self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
        if self.done {
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
