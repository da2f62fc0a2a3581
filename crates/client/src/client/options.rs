//! What a client leaves to its user, beyond the bootstrap.

use std::ffi::OsString;
use std::time::Duration;

use oxds_core::ads::Protocol;

use crate::transport::Keepalive;

/// Turns the handling of data errors of gRFC A88 on when it says `true`.
const DATA_ERRORS_VARIABLE: &str = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING";

/// How a client behaves. The defaults are gRPC's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How servers are asked: for full states, as gRPC does, unless told. Differences cost what changed, and say at once
    /// that a resource does not exist.
    pub protocol: Protocol,
    /// How long a server may be silent about a resource before it counts as missing: 15 s (gRFC A27).
    pub resource_timeout: Duration,
    /// How long the next response of a stream waits for watchers that have yet to read what the last one brought: 1 s. They
    /// find the newest word in the end, so that one who never reads slows the stream down, and does not stop it.
    pub patience_with_watchers: Duration,
    /// Whether errors of data are handled as gRFC A88 has it, by `fail_on_data_errors` and
    /// `resource_timer_is_transient_error` of each server: unless told, as
    /// `GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING` says, which is no if it says nothing.
    pub data_error_handling: bool,
    /// Whether resources end with their time to live, of which servers are told that we know it: no, as in gRPC.
    pub resource_ttl: bool,
    /// The largest response that is read: 1 GiB. gRPC's usual 4 MiB are too few for a control plane (C-93); this bounds
    /// what a broken one can make of us. A larger one ends the stream.
    pub most_response_bytes: usize,
    /// How a connection into a black hole is found out: a ping after 5 min, 20 s for its answer.
    pub keepalive: Keepalive,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::Sotw,
            resource_timeout: Duration::from_secs(15),
            patience_with_watchers: Duration::from_secs(1),
            data_error_handling: is_true(std::env::var_os(DATA_ERRORS_VARIABLE)),
            resource_ttl: false,
            most_response_bytes: 1 << 30,
            keepalive: Keepalive::default(),
        }
    }
}

/// Booleans are `true` or `false`, whatever the case; anything else is the default, no.
fn is_true(value: Option<OsString>) -> bool {
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
