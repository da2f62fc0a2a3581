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
/// are there: a full disk leaves the tree as it was. Gives the paths whose text changed.
///
/// # Errors
/// When a folder or file cannot be written.
pub fn write(root: &Path, files: &[Generated]) -> Result<Vec<PathBuf>, NotWritten> {
    let mut written: Vec<(PathBuf, PathBuf)> = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        if fs::read(&path).is_ok_and(|text| text == file.text.as_bytes()) {
            continue;
        }
        let beside = path.with_extension("proto.new");
        if let Err(error) = write_beside(&beside, &file.text) {
            written.push((beside, path.clone()));
            for (beside, _) in written {
                // What cannot be removed now was never in place.
                let _ = fs::remove_file(beside);
            }
            return Err(NotWritten {
                path,
                reason: error.to_string(),
            });
        }
        written.push((beside, path));
    }
    for (beside, path) in &written {
        fs::rename(beside, path).map_err(|error| NotWritten {
            path: path.clone(),
            reason: error.to_string(),
        })?;
    }
    Ok(written.into_iter().map(|(_, path)| path).collect())
}

fn write_beside(beside: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = beside.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(beside, text)
}
