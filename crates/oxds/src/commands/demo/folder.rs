//! The folder that the demo serves.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Path of the example in the repository.
const IN_REPOSITORY: &str = "examples/shop";
/// Folder for a copy of the example, outside the repository.
const COPY: &str = "oxds-demo";

macro_rules! shop {
    ($($file:literal),*) => {
        &[$(($file, include_str!(concat!("../../../shop/", $file)))),*]
    };
}

/// Files of `examples/shop`, so that the demo needs only the binary. A test compares the list with the
/// folder.
const SHOP: &[(&str, &str)] = shop![
    "README.md",
    "catalog/clusters.yaml",
    "catalog/endpoints.yaml",
    "catalog/listener.yaml",
    "catalog/routes.yaml",
    "checkout/clusters.yaml",
    "checkout/endpoints.yaml",
    "checkout/listener.yaml",
    "checkout/routes.yaml"
];

/// Returns the folder to serve: `dir` if given, else the example of the repository, else a copy of it in
/// the current directory. An existing copy stays as it is, because it may have been edited.
pub(super) fn find(dir: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(dir) = dir {
        return Ok(dir);
    }
    let current = std::env::current_dir()
        .map_err(|error| Failure::usage(format_args!("current directory: {error}")))?;
    for ancestor in current.ancestors() {
        let example = ancestor.join(IN_REPOSITORY);
        if example.join("checkout/routes.yaml").is_file() {
            // Relative, because the user types this path to edit a file.
            let relative = example.strip_prefix(&current);
            return Ok(relative.map(Path::to_owned).unwrap_or(example));
        }
    }
    let copy = PathBuf::from(COPY);
    if !copy.is_dir() {
        write(&copy).map_err(|error| {
            let directory = current.display();
            Failure::usage(format_args!(
                "cannot write the example to {directory}/{COPY}: {error}"
            ))
            .hint("run it in a writable directory, or give a folder: oxds demo DIR")
        })?;
    }
    Ok(copy)
}

/// Returns the file with the weights of the traffic split, if the folder is the example.
pub(super) fn file_to_edit(dir: &Path) -> Option<PathBuf> {
    let file = dir.join("checkout/routes.yaml");
    file.is_file().then_some(file)
}

fn write(dir: &Path) -> io::Result<()> {
    for (name, text) in SHOP {
        let file = dir.join(name);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn embedded_files_equal_the_example() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("shop");
        let mut in_repository = Vec::new();
        files(&example, &mut in_repository);
        in_repository.sort_unstable();
        let listed: Vec<_> = SHOP.iter().map(|(name, _)| example.join(name)).collect();
        assert_eq!(in_repository, listed);
    }
}
