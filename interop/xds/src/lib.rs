//! The client and the server of gRPC's xDS interop suite, on oxds. A driver that knows only their flags and services
//! can use them in place of another language's.
//!
//! ```text
//!                        test driver
//!          stats, Configure │      │ SetServing, health
//!  control plane            ▼      ▼
//!       │ ADS      xds-interop-client ──EmptyCall, UnaryCall──▶ xds-interop-server
//!       └────────▶  (an XdsChannel)   ◀──host name───────────────  (obeys rpc-behavior)
//! ```
//!
//! The contract is that of gRPC's [test
//! descriptions](https://github.com/grpc/grpc/blob/master/doc/xds-test-descriptions.md). Features that oxds lacks
//! (security by xDS, telemetry) are refused at the start, not ignored. Both programs are for tests only.

pub mod client;
mod flags;
pub mod messages;
pub mod program;
pub mod server;
pub mod wire;

pub use flags::Unsupported;
