//! The files of the repository, for the tests that look at all of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Text of a file, by its path from the root of the repository.
pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect(file)
}

/// Rust files below a folder, sorted. Build output and hidden folders are left out.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(rust_files(&path));
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}

/// Path as the repository names it: from its root, with forward slashes.
pub(crate) fn relative(path: &Path) -> String {
    let root = root();
    let below = path.strip_prefix(&root).expect("a file of the repository");
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}
