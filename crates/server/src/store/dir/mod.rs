//! The store for a folder of resource files, watched (S-69, S-71 … S-73, S-75).
//!
//! ```text
//!  notify ──▶ events ──quiet 50 ms──▶ folder ──▶ walks, reader (threads) ──▶ settling ──▶ Documents ──▶ Update
//!  look at the name every 100 ms ──▶    │ a thread of its own, which never touches a disk
//! ```
//!
//! Files in `groups/<name>/` are for the nodes that `groups/<name>/group.yaml` defines, all other files for all nodes.
//!
//! The store reads every `*.yaml`, `*.yml`, `*.json`, `*.pb_text`, `*.textproto` and `*.pb` file below the folder,
//! except hidden files and folders. An invalid file changes nothing: its last valid content stays served until the file
//! is fixed or deleted, and the other files still apply. [`documents`](super::documents) has the rules of merging.
//!
//! A file that is written in place is read once it is complete; `settling` has the rules. A folder that is replaced as
//! a whole (by a rename, or by a link that is turned over) is one change set. No part of the folder keeps the rest from
//! being served: what cannot be read or watched, or does not respond, is a finding.

mod activity;
mod batches;
mod changes;
mod dir_store;
mod disk;
mod events;
mod folder;
mod message;
mod options;
mod reader;
mod replacement;
mod scan;
mod settling;
#[cfg(test)]
mod tests;
mod walks;

pub use dir_store::{DirStore, Reload, SetPolicy, load};
pub use options::{Error, Options, Progress, Report};

/// The name of this store in [`Origin::store`](super::Origin::store).
const STORE: &str = "dir";
