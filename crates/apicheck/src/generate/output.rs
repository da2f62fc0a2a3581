//! Generated files, and their paths.

use crate::model::File;

/// File to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Generated {
    /// Path from the top of the tree, as returned by [`File::place`].
    pub path: String,
    /// Text of the file.
    pub text: String,
}

impl Generated {
    /// Returns a file with this text.
    #[must_use]
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }
}

/// Returns the path of a file for a new version of its package: the folder ends with the version,
/// too.
pub(super) fn target_path(file: &File, package: &str, version: &(String, String)) -> String {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    match folder.strip_suffix(&*version.0) {
        Some(base) => format!("{base}{}/{name}", version.1),
        None => path_of(file, package),
    }
}

/// Returns the path that matches a package.
pub(super) fn path_of(file: &File, package: &str) -> String {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    format!("{}/{name}", package.replace('.', "/"))
}
