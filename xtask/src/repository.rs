//! The files of the repository, for the rules that look at all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that git tracks.
#[derive(Debug)]
pub(crate) struct Tracked {
    /// Path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Tracked {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// Folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Text of a file, by its path from the root of the repository.
pub(crate) fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect(file)
}

/// Output of a command that runs in the root of the repository.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Files of the repository that match one of these patterns of git, and are text.
pub(crate) fn tracked(patterns: &[&str]) -> Vec<Tracked> {
    let listed = output("git", &[&["ls-files", "--"], patterns].concat());
    // A link has the text of another file. A file that was deleted since has none.
    let is_file = |path: &&str| fs::symlink_metadata(root().join(path)).is_ok_and(|m| m.is_file());
    let texts = listed.lines().filter(is_file).filter_map(|path| {
        let text = fs::read_to_string(root().join(path)).ok()?;
        Some(Tracked::new(path, &text))
    });
    texts.collect()
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
