//! The lock of a folder: one process at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use fs4::fs_std::FileExt as _;

/// The lock. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Open as long as the folder is locked.
    _file: File,
}

/// Why a folder cannot be locked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("in use by {0}")]
    InUse(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Name of the file.
const NAME: &str = "lock";

impl Lock {
    /// Locks a folder, without waiting.
    pub(crate) fn take(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = match options.open(&path) {
            // The state on a disk that became read-only can still be served.
            Err(error) if is_read_only(&error) => File::open(&path).map_err(|_| error)?,
            file => file?,
        };
        if !file.try_lock_exclusive()? {
            return Err(LockError::InUse(holder(&mut file)));
        }
        // Only for the text of the error above.
        let _ = file.set_len(0);
        let _ = write!(file, "process {}", std::process::id());
        Ok(Self { _file: file })
    }
}

fn is_read_only(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::ReadOnlyFilesystem || kind == io::ErrorKind::PermissionDenied
}

/// Returns the process that has the lock.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(64).read_to_string(&mut text);
    match text.strip_prefix("process ") {
        Some(id) if read.is_ok() && id.bytes().all(|b| b.is_ascii_digit()) => text,
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_second_lock_of_a_folder_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        let error = Lock::take(folder.path()).unwrap_err().to_string();
        assert_eq!(error, format!("in use by process {}", std::process::id()));
        drop(lock);
        Lock::take(folder.path()).unwrap();
    }
}
