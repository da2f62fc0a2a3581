//! What a watcher is told when there is no resource, or when it is not up to date.

use std::fmt;
use std::sync::Arc;

/// Why a resource is missing, or why what is held may be old. Cheap to clone: every watcher gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchError {
    /// What went wrong.
    pub reason: Reason,
    /// In words. Names node, kind, resource, and the server where one is to blame (C-118).
    text: Arc<str>,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The server says, by deleting it or by silence, that there is no such resource.
    DoesNotExist,
    /// The server sent one that breaks a rule.
    Invalid,
    /// The server says that it is not for this client.
    Denied,
    /// The server cannot be reached, does not answer, or says that it cannot answer for now.
    Unreachable,
    /// The resource is there, but is of no use to who asked for it.
    Unusable,
}

impl WatchError {
    /// An error in words of one's own.
    #[must_use]
    pub fn new(reason: Reason, text: impl Into<Arc<str>>) -> Self {
        Self {
            reason,
            text: text.into(),
        }
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for WatchError {}
