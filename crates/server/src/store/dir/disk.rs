//! Access to files, which may block for any time.

use std::fs::ReadDir;
use std::io;
use std::path::Path;

use notify::{Event, RecommendedWatcher};
use oxds_types::file::{self, ReadError};

/// Receives the events of a watcher, on its thread.
pub(super) type Handler = Box<dyn FnMut(notify::Result<Event>) + Send>;

/// The calls that block if a file system does not respond, or that fail if the system has no resources left. Tests
/// replace it.
pub(super) trait Disk: Send + Sync {
    /// Lists a folder.
    fn list(&self, folder: &Path) -> io::Result<ReadDir> {
        std::fs::read_dir(folder)
    }

    /// Returns a source of events.
    fn watcher(&self, handler: Handler) -> notify::Result<RecommendedWatcher> {
        notify::recommended_watcher(handler)
    }

    /// Reads a file of at most `max_bytes`.
    fn read(&self, path: &Path, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        file::read(path, max_bytes)
    }
}

/// The file systems of the machine.
pub(super) struct Machine;

impl Disk for Machine {}
