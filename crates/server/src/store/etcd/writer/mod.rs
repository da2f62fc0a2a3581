//! The writer's side: a folder becomes a publish, and what is published is read once.
//!
//! ```text
//!  folder ──entries──▶ Publisher of `oxds_etcd` ◀──requests, answers──▶ Session ──▶ EtcdClient of one member
//!                        │ merged state                                    └── another member after a failure
//!                        └──check──▶ findings
//! ```
//!
//! The machine [`Publisher`](oxds_etcd::publisher::Publisher) decides which keys are written, and in which order.

mod check;
mod entries;
mod failure;
mod fleet;
mod publish;
mod read;
mod session;

pub use check::{check, is_of_folder};
pub use entries::{EntriesError, FolderEntries, entries};
pub use fleet::read_fleet;
pub use publish::{PublishNotice, publish, publish_id};
pub use read::{Published, UnreadableStore, read};
pub use session::Session;
