//! File access off the runtime's worker threads.

use std::io;

/// Runs a blocking read on tokio's blocking threads: files may be on slow or network disks.
pub async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let read = tokio::task::spawn_blocking(read);
    read.await.map_err(io::Error::other)
}
