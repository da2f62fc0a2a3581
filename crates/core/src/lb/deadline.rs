//! How long an RPC may take.

use std::time::Duration;

use crate::resource::StreamLimit;

/// The bound that a configuration puts on an RPC (gRFC A31): the route's limit for a client's own timeout, else the
/// route's, else the listener's; zero is none. The RPC's deadline is the lesser of this and the application's own.
#[must_use]
pub fn stream_limit(route: StreamLimit, listener: Option<Duration>) -> Option<Duration> {
    route
        .grpc_timeout_header_max
        .or(route.max_stream_duration)
        .or(listener)
        .filter(|limit| !limit.is_zero())
}
