//! A thin client for etcd's v3 API: one connection to one member that the caller has chosen.
//!
//! ```text
//!   Endpoints ──► Members ──► Endpoint ──► EtcdClient ──► unary calls, with time limits
//!                    ▲                         │  └─────► WatchStream, LeaseKeeper
//!                    └── use_next() ◄── EtcdError (who is to blame)
//! ```
//!
//! It takes no decision about retries, other members or revisions: the state machines of `oxds_core` and their drivers
//! do. It does take the decisions that belong to one connection: certificates, tokens, time limits, and the texts of
//! etcd's errors.
//!
//! The messages are those of `oxds_types::etcd`, and the transport that of `oxds-net`. Values are not copied: they are
//! parts of the buffer that was received.

mod access;
mod calls;
mod classify;
mod connection;
mod endpoint;
mod error;
mod etcd_client;
mod identity;
mod kv;
mod lease;
mod maintenance;
mod method;
mod options;
mod security;
mod stream;
mod watch;

pub use endpoint::{Endpoint, EndpointError, Endpoints, Members};
pub use error::{Blame, EtcdError, Reason};
pub use etcd_client::EtcdClient;
pub use identity::MemberIdentity;
pub use lease::LeaseKeeper;
pub use options::{ClientOptions, EtcdTlsFiles, OptionsError, User};
pub use watch::WatchStream;
