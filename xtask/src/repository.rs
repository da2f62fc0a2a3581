//! The files of the repository, for the rules that look at all of them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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

/// Sources of the packages whose folder has one of these names, each with its `src` folder; all if no name is given.
pub(crate) fn sources(names: &[String]) -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).expect("crates");
    let mut packages: Vec<_> = crates
        .map(|package| package.expect("a crate").path())
        .collect();
    packages.sort();
    let beside = ["testkit", "interop", "interop/xds", "bench", "xtask"];
    packages.extend(beside.map(|folder| root().join(folder)));
    let is_named = |package: &PathBuf| {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        names.is_empty() || names.iter().any(|chosen| *chosen == name)
    };
    packages
        .into_iter()
        .filter(is_named)
        .map(|package| package.join("src"))
        .collect()
}
