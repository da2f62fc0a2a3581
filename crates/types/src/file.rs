//! Reads regular files up to a size limit, replaces files as a whole, and identifies the states of a file.

use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Identity of one state of a file, from its metadata. Replaced content has another inode or a later change time. Two
/// writes within the resolution of the clock are covered by the notifications of the system. The default value stands
/// for a file that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    unix: (u64, u64, i64, i64),
}

impl Stamp {
    /// Returns the stamp of the file at `path`. Symbolic links are followed.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        std::fs::metadata(path)
            .map(|metadata| Self::from(&metadata))
            .unwrap_or_default()
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            unix: {
                use std::os::unix::fs::MetadataExt as _;
                (
                    metadata.dev(),
                    metadata.ino(),
                    metadata.ctime(),
                    metadata.ctime_nsec(),
                )
            },
        }
    }
}

/// A file that cannot be read, or whose content is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
#[non_exhaustive]
pub struct FileError {
    /// Path of the file, as it was configured.
    pub path: PathBuf,
    /// Error of the operating system, or the defect of the content.
    pub reason: String,
}

impl FileError {
    /// Returns an error about the file at `path`.
    pub fn new(path: &Path, reason: impl fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// The reason for which a file was not read. The path is not part of the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Error of the operating system.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The path is a folder.
    #[error("is a folder: expected a resource file")]
    Folder,
    /// The path is a pipe, a socket or a device, on which a read can block without end.
    #[error("is not a regular file")]
    Irregular,
    /// The file is larger than the limit, which is the value, in bytes.
    #[error("larger than the limit of {0} bytes")]
    TooLarge(u64),
}

/// Reads a regular file of at most `max_bytes`. Pipes and devices are never opened.
///
/// # Errors
/// [`ReadError`], whose text does not have the path.
pub fn read(path: &Path, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(ReadError::Folder);
    }
    if !metadata.is_file() {
        return Err(ReadError::Irregular);
    }
    let limit = max_bytes as u64;
    let mut bytes = Vec::new();
    // Read one byte more than allowed: the file may have grown since its metadata was read.
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge(limit));
    }
    Ok(bytes)
}

/// Replaces the content of a file as a whole, or makes the file: a reader sees the old content or the new one. A
/// symbolic link stays, and its target gets the content; permissions stay. A pipe or a device is written to.
///
/// # Errors
/// The error of the operating system. The file has its old content then.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = std::fs::metadata(&target).ok();
    let name = match (target.file_name(), &before) {
        (Some(name), Some(before)) if before.is_file() => name,
        (Some(name), None) => name,
        _ => return std::fs::write(path, content),
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.new", std::process::id()));
    let beside = target.with_file_name(hidden);
    let keep_permissions = || match before {
        Some(before) => std::fs::set_permissions(&beside, before.permissions()),
        None => Ok(()),
    };
    let replaced = std::fs::write(&beside, content)
        .and_then(|()| keep_permissions())
        .and_then(|()| std::fs::rename(&beside, &target));
    if replaced.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&beside);
    }
    replaced
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Given a reader of a file behind a link, when the file is replaced, then the reader has the old content, the link
    /// leads to the new one with the permissions as before, and nothing else is left.
    #[test]
    fn v40_replaced_file_is_never_half_written() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        replace(&file, b"old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let mut reader = File::open(&link).unwrap();
        replace(&link, b"new").unwrap();
        let mut old = String::new();
        reader.read_to_string(&mut old).unwrap();
        assert_eq!((&*old, &*fs::read(&link).unwrap()), ("old", &b"new"[..]));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn v40_failed_replacement_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        assert!(replace(&dir.path().join("none/file"), b"x").is_err());
        assert!(replace(dir.path(), b"x").is_err(), "a folder");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        replace(Path::new("/dev/null"), b"x").unwrap();
    }
}
