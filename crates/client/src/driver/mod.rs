//! Driver of a client: one task that runs the state machine [`oxds_core::ads::Client`] over its sources.
//!
//! ```text
//!  XdsClient, WatchSet ── Command ─► ClientDriver ◄─ SourceEvent ─ Feed (one per server)
//!                                      │    │ └──── AdsTransmit ────►
//!                      WatchEvent ◄────┘    └─► Telemetry (log, metrics, channelz)
//!                    to each WatcherQueue
//! ```
//!
//! | file | content |
//! |---|---|
//! | `shared` | [`ClientShared`]: state that handles and watches of a client share; starts the driver |
//! | `authorities` | the servers of each resource name (gRFC A47, A71) |
//! | `command` | commands from handles and watches to the driver |
//! | `task` | the task itself |
//! | `flow_control` | a stream waits for watchers that have not read its last response |
//! | `status` | a copy of the cache, for CSDS |

mod authorities;
mod command;
mod flow_control;
mod shared;
mod status;
mod task;

pub(crate) use command::{Command, WatchEntry, Watcher};
pub(crate) use shared::ClientShared;
pub(crate) use status::ResourceStatus;
