//! The identity of a folder, which differs between a folder and one that replaces it.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Identity of a folder. A folder that replaces another one at the same path has another inode or a later time of
/// creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    #[cfg(unix)]
    inode: (u64, u64),
    created: Option<SystemTime>,
}

impl Identity {
    /// Returns the identity of the folder that `path` leads to. Links are followed.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self {
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt as _;
                (metadata.dev(), metadata.ino())
            },
            created: metadata.created().ok(),
        })
    }
}
