//! Reads regular files up to a size limit, and identifies the states of a file.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Identity of one state of a file, from its metadata. Replaced content has another inode or a later change time. Two
/// writes within the resolution of the clock are covered by the notifications of the system. The default value stands for a
/// file that cannot be read.
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
