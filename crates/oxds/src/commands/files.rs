//! The folder that `oxds serve --files` writes into.

use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Makes the folder `out`, unless what is written there would be read from `dir` again, or overwrite it.
pub(super) fn prepare(dir: &Path, out: &Path) -> Result<(), Failure> {
    let unusable = |error: io::Error| {
        let out = out.display();
        Failure::usage(format_args!("--files: cannot write into {out}: {error}"))
    };
    let (served, written) = (real(dir).map_err(unusable)?, real(out).map_err(unusable)?);
    if served.starts_with(&written) || written.starts_with(&served) {
        let (dir, out) = (dir.display(), out.display());
        let failure = Failure::usage(format_args!("--files: {out} and {dir} lie in each other"));
        return Err(
            failure.hint("what is served is written beside the folder that it is read from")
        );
    }
    std::fs::create_dir_all(out).map_err(unusable)
}

/// Where a path leads, its links followed as far as there is something.
fn real(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return Ok(real.join(rest));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s57_a_folder_is_not_written_into_itself() {
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
            "nothing was made there"
        );
        for out in ["out", "new/out", "config-out"] {
            assert_eq!(prepare(&config, &at(out)), Ok(()), "{out:?}");
            assert!(at(out).is_dir());
        }
    }

    #[test]
    fn a_file_is_no_folder_to_write_into() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let config = dir.path().join("config");
        for out in [&file, &file.join("below")] {
            assert!(prepare(&config, out).is_err(), "{out:?}");
        }
    }
}
