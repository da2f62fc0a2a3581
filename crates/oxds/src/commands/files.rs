//! The output folder of `oxds serve --files`.

use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Creates the folder `out`. Fails if `out` and `dir` contain each other: the written files would be read
/// again, or overwrite the source.
pub(super) fn prepare(dir: &Path, out: &Path) -> Result<(), Failure> {
    check(dir, out)?;
    std::fs::create_dir_all(out).map_err(|error| unusable(out, &error))
}

/// Creates the folder `out` for resources that come from no folder.
#[cfg(feature = "etcd")]
pub(super) fn prepare_alone(out: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(out).map_err(|error| unusable(out, &error))
}

/// Checks that the folder `out` could be written to, and creates nothing.
pub(super) fn check(dir: &Path, out: &Path) -> Result<(), Failure> {
    let served = resolved(dir).map_err(|error| unusable(out, &error))?;
    let written = resolved(out).map_err(|error| unusable(out, &error))?;
    if served.starts_with(&written) || written.starts_with(&served) {
        let (dir, out) = (dir.display(), out.display());
        let failure = Failure::usage(format_args!(
            "--files: {out} overlaps the served folder {dir}: expected a separate folder"
        ));
        return Err(failure.hint("choose a folder beside the served one"));
    }
    if out.exists() && !out.is_dir() {
        return Err(unusable(out, &io::ErrorKind::NotADirectory.into()));
    }
    Ok(())
}

fn unusable(out: &Path, error: &io::Error) -> Failure {
    let out = out.display();
    Failure::usage(format_args!("--files: cannot write to {out}: {error}"))
}

/// Returns the absolute path with the links of its existing part resolved.
pub(super) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for ancestor in path.ancestors() {
        if let Ok(existing) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return Ok(existing.join(rest));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s57_overlapping_output_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        std::fs::create_dir(&config).unwrap();
        std::os::unix::fs::symlink(&config, dir.path().join("link")).unwrap();
        let at = |name: &str| dir.path().join(name);
        for out in [
            "config",
            "config/out",
            "link",
            "link/deep/out",
            "",
            "config/../config",
        ] {
            assert!(prepare(&config, &at(out)).is_err(), "{out:?}");
        }
        assert!(
            std::fs::read_dir(&config).unwrap().next().is_none(),
            "nothing was created there"
        );
        for out in ["out", "new/out", "config-out"] {
            assert_eq!(prepare(&config, &at(out)), Ok(()), "{out:?}");
            assert!(at(out).is_dir());
        }
    }

    #[test]
    fn output_path_that_is_a_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let config = dir.path().join("config");
        for out in [&file, &file.join("below")] {
            assert!(prepare(&config, out).is_err(), "{out:?}");
        }
    }
}
