//! Follower of a configuration in etcd: a replica's half of the store.
//!
//! ```text
//!                connected, nothing read      ┌─────────┐  last page
//!            ┌───────────────────────────────▶│ Reading │───────────────┐
//!            │                                └─────────┘               ▼
//!  ┌─────────┴──┐  connected  ┌──────────┐     ▲  ▲ compacted,     ┌───────────┐
//!  │ Connecting │────────────▶│ Checking │─────┘  │ digest, lost   │ Following │──┐ every 5 s: progress request and
//!  └────────────┘             └──────────┘ other  │ events, other  └───────────┘◀─┘ read of the heads
//!        ▲                     │  │  ▲   history  │ history          │  ▲   │
//!        │ delay is over       │  │  │            └──────────────────┘  │   │
//!   ┌─────────┐    failed      │  │  └──────── every 10 minutes ────────│───┤
//!   │ Waiting │◀───────────────┘  └─────────── the heads are known ─────┘   │
//!   └─────────┘◀──── failed, silent, stuck, inconsistent: another member ───┘
//!
//!  any phase ── newer format ──▶ Stopped
//! ```
//!
//! - **Reading** reads all keys at one revision, in pages. **Checking** reads only the heads, linearizably, and decides
//!   whether the watch can go on after the last known revision. **Following** buffers the events of each lane until its
//!   head vouches for them: one publish is one change.
//! - The state that is handed out changes only when the digest of a head is that of all entries of its lane. So lost,
//!   doubled and disordered events are found with the next head at the latest, and everything is read again (G-21).
//! - It never goes back to an earlier publish, whatever etcd answers: it holds the state that is served (G-27). No
//!   failure removes a resource.
//! - Large publishes are staged: the head names a stage, which is applied with it as one change. The watch has shown
//!   its keys before; if it has not shown all, the stage is read at the revision of the head. The moves of its keys to
//!   their places change nothing then.
//! - Etcd is trusted with order only as far as it can be checked: see `spec` items G-16 to G-24, G-27 to G-29, G-31 and
//!   G-36 in the tests.
//!
//! Not done here: connections, TLS and authentication, the choice of the member, and the status keys of this replica.

mod check;
mod config;
mod connecting;
mod effect;
mod event;
mod finding;
mod fleet_view;
mod following;
mod held;
mod lane;
mod lanes;
mod machine;
mod phase;
mod reading;
mod replicas;
mod retry;
mod saved;
mod staged;
mod status;
mod updates;
mod view;

pub use config::{FollowerConfig, FollowerTiming};
pub use effect::{ConnectionId, Failure, FailureKind, FollowerTransmit, RequestId, StreamId};
pub use event::{FollowerEvent, FollowerUpdate, Notice, ReadReason};
pub use finding::{FindingKind, FollowerFinding};
pub use machine::Follower;
pub use saved::{SavedState, encode_heads};
pub use status::{FollowerStatus, LaneStatus};
