//! The store for a folder of resource files, watched (S-69, S-71 … S-73, S-75).
//!
//! ```text
//!  notify ──paths──▶ Watch ──quiet 50 ms──▶ scan ──stamps──▶ read, in parallel ──▶ Documents ──▶ Update
//!                    (debounce)             (walk)           (files that changed)  (merge)
//! ```
//!
//! Files in `groups/<name>/` are for the nodes that `groups/<name>/group.yaml` defines, all other files for all nodes.
//!
//! The store reads every `*.yaml`, `*.yml`, `*.json`, `*.pb_text`, `*.textproto` and `*.pb` file below the folder, except
//! hidden files and folders. An invalid file changes nothing: its last valid content stays served until the file is fixed
//! or deleted, and the other files still apply. [`documents`](super::documents) has the rules of merging.

mod dir_store;
mod folder;
mod options;
mod scan;
mod watch;

pub use dir_store::{DirStore, load};
pub use options::{Error, Options, Progress, Report};
pub use watch::Reload;
