//! A file as it is read: never a pipe, never beyond a limit; and what tells its states apart.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells a file's states apart without reading it. Content that was replaced has another inode, or a later
/// time of change; what the time is too coarse for, the system's report of a write covers. The default is that of
/// nothing that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    unix: (u64, u64, i64, i64),
}

impl Stamp {
    /// That of the file that `path` leads to, by links if need be.
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

/// Why a file's bytes cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system says so.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is a folder.
    #[error("is a folder, but named like a resource file")]
    Folder,
    /// It is a pipe, a socket or a device, which could be waited for for ever.
    #[error("is not a regular file")]
    Irregular,
    /// It is larger than the limit, in bytes.
    #[error("larger than {0} bytes, which is the limit")]
    TooLarge(u64),
}

/// The file's bytes, if it is one and has at most so many. A pipe or a device is never opened.
///
/// # Errors
/// [`ReadError`]: none of them names the file.
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
    // One byte more than allowed: the file may have grown since.
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(ReadError::TooLarge(limit)),
        false => Ok(bytes),
    }
}
