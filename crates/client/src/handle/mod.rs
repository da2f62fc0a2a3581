//! Handles that an application uses: a pool of clients, a client, and its watches.
//!
//! ```text
//!  ClientPool ─► XdsClient ─► Watch<T>, WatchAll<T>, RawWatch, RawWatchAll
//!                   │              └──► WatchSet: any number of watches with one queue
//!                   └── Command ─► driver
//! ```

mod client;
mod pool;
mod watch;
mod watch_set;

pub use client::XdsClient;
pub use pool::ClientPool;
pub use watch::{RawWatch, RawWatchAll, Watch, WatchAll};
pub(crate) use watch_set::WatchSet;
