//! The client and the server of gRPC's xDS interop suite, on oxds: a driver that knows nothing of them but their flags
//! and services can put them in the place of another language's.
//!
//! ```text
//!                        test driver
//!          stats, Configure │      │ SetServing, health
//!  control plane            ▼      ▼
//!       │ ADS      xds-interop-client ──EmptyCall, UnaryCall──▶ xds-interop-server
//!       └────────▶  (an XdsChannel)   ◀──who answers────────────  (does as rpc-behavior says)
//! ```
//!
//! The contract is that of gRPC's
//! [test descriptions](https://github.com/grpc/grpc/blob/master/doc/xds-test-descriptions.md). What oxds lacks (security
//! by xDS, telemetry) is refused at the start, not ignored. Neither is meant for anything but tests.

pub mod client;
mod flags;
pub mod messages;
pub mod program;
pub mod server;
pub mod wire;

pub use flags::Unsupported;
