//! Channelz: state and call counts of a process's channels, connections and servers (gRFC A14), for tools such as
//! `grpcdebug`.
//!
//! ```text
//!  ClientPool ─► Registry ─► ChannelEntry ─► SubchannelEntry ─► SocketEntry     each has an id
//!                    └─────► CountedServer
//! ```
//! The registry of a [`ClientPool`](crate::ClientPool) contains the channels that were built with it (`oxds-channel`
//! registers them) and the servers that the application [registers](Registry::server). It holds weak references: an
//! entry disappears when its channel or server is dropped.
//!
//! | value | counted |
//! |---|---|
//! | calls of a channel, and of a subchannel | at their start and at their end, by atomics; without a lock or a clock |
//! | streams of a socket | those in progress, and by how they ended |
//! | calls of a server | at their start and at their end |
//! | messages, keepalives, flow control, times of the last call | not counted |
//!
//! Values that are not counted would cost a clock per call or a check per frame. They are reported as 0, the epoch, and
//! −1 for windows, because `grpcdebug` fails where they are absent.

mod counter;
mod registry;
mod server;

pub use counter::{CallCounter, CallOutcome, Calls};
pub(crate) use registry::ServerRecord;
pub use registry::{ChannelEntry, ChannelSnapshot, Id, Registry, SocketEntry, SubchannelEntry};
pub use server::{CountedBody, CountedCall, CountedServer, CountedService};
