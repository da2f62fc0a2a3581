//! Paths of documents in the state file: below the root, so that it may be named in another way after a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the bytes of a path below `root`. A path elsewhere is kept as it is.
pub(super) fn below(root: &Path, document: &Path) -> Vec<u8> {
    let below = document.strip_prefix(root).unwrap_or(document);
    below.as_os_str().as_encoded_bytes().to_vec()
}

/// Returns the path of a document below `root`.
pub(super) fn join(root: &Path, below: &[u8]) -> Arc<Path> {
    root.join(from_bytes(below)).into()
}

#[cfg(unix)]
fn from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn from_bytes(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}
