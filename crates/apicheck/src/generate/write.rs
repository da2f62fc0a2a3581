//! Output of generated files to disk: all files or none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::output::Generated;

/// Difference between a folder and the generated files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The file is missing.
    Missing(PathBuf),
    /// The file has another text.
    Changed(PathBuf),
}

/// Error: nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}; nothing was written")]
#[non_exhaustive]
pub struct WriteError {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Message of the operating system.
    pub reason: String,
}

/// Returns the differences between the folder `root` and the generated files, for `--check`.
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

/// Writes files below `root`: [`apply`] without removals.
///
/// # Errors
/// Fails like [`apply`].
pub fn write(root: &Path, files: &[Generated]) -> Result<Vec<PathBuf>, WriteError> {
    apply(root, files, &[])
}

/// Writes files below `root` and removes others. All texts are written to temporary files first and
/// then renamed. Finally the other files are removed, together with folders that become empty. If
/// one step fails, all steps are reverted. Returns the paths whose text changed.
///
/// # Errors
/// Fails if a file cannot be written or removed; the tree is unchanged then.
pub fn apply(
    root: &Path,
    files: &[Generated],
    removed: &[String],
) -> Result<Vec<PathBuf>, WriteError> {
    let mut changes: Vec<FileChange> = Vec::new();
    match steps(root, files, removed, &mut changes) {
        Ok(()) => {
            let written = changes.iter().filter(|change| change.beside.is_some());
            Ok(written.map(|change| change.path.clone()).collect())
        }
        Err((path, error)) => {
            changes.iter().for_each(FileChange::restore);
            Err(WriteError {
                path,
                reason: error.to_string(),
            })
        }
    }
}

/// Performs all steps, and records each one in `changes` for a rollback.
fn steps(
    root: &Path,
    files: &[Generated],
    removed: &[String],
    changes: &mut Vec<FileChange>,
) -> Result<(), (PathBuf, io::Error)> {
    for file in files {
        let path = root.join(&file.path);
        let before = fs::read(&path).ok();
        if before.as_deref() != Some(file.text.as_bytes()) {
            let beside = path.with_extension("proto.new");
            changes.push(FileChange {
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
        changes.push(FileChange {
            path,
            beside: None,
            before: Some(before),
            done: false,
        });
    }
    for change in changes.iter_mut() {
        let done = match &change.beside {
            Some(beside) => fs::rename(beside, &change.path),
            None => fs::remove_file(&change.path),
        };
        done.map_err(|error| (change.path.clone(), error))?;
        change.done = true;
    }
    for change in changes.iter().filter(|change| change.beside.is_none()) {
        // `remove_dir` fails for a folder that is not empty, which is intended.
        let _ = change.path.parent().map(fs::remove_dir);
    }
    Ok(())
}

/// File that gets a new text or is removed.
struct FileChange {
    path: PathBuf,
    /// Temporary file with the new text; `None` if the file is removed.
    beside: Option<PathBuf>,
    /// Old contents; `None` if the file is new.
    before: Option<Vec<u8>>,
    done: bool,
}

impl FileChange {
    /// Restores the old state. A failure here cannot be handled.
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
