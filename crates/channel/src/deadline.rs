//! The deadline of an RPC: the application's, or the route's limit if that ends earlier (gRFC A31).
//!
//! The time counts from the call, so the deadline covers the wait for a configuration, the wait for a
//! connection, and the response.

use std::time::Duration;

use http::HeaderMap;
use oxds_net::rpc::{GRPC_TIMEOUT, format_timeout, parse_timeout};
use tokio::time::Instant;

/// Instant at which the RPC must end, if it has a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the application's deadline, which gRPC front ends send as the `grpc-timeout` header.
    pub(crate) fn of_request(headers: &HeaderMap) -> Self {
        // Without the header the clock is not read: most calls save that cost.
        let timeout = headers.get(GRPC_TIMEOUT).and_then(parse_timeout);
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Shortens the deadline to `limit` after `started`, if that is earlier.
    pub(crate) fn limit(&mut self, started: Instant, limit: Duration) {
        // gRFC A31: the smaller of the application's deadline and the route's limit wins (C-233).
        if let Some(end) = started.checked_add(limit) {
            self.0 = Some(self.0.map_or(end, |own| own.min(end)));
        }
    }

    pub(crate) fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Writes the remaining time to the `grpc-timeout` header, for the backend. Returns false, and writes no header, if
    /// no time is left.
    pub(crate) fn write(self, headers: &mut HeaderMap) -> bool {
        let Some(end) = self.0 else { return true };
        let left = end.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            headers.insert(GRPC_TIMEOUT, format_timeout(left));
        }
        !left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c233_smaller_limit_wins() {
        let now = Instant::now();
        let mut deadline = Deadline::default();
        deadline.limit(now, Duration::from_secs(9));
        deadline.limit(now, Duration::from_secs(3));
        deadline.limit(now, Duration::from_secs(5));
        assert_eq!(deadline.instant(), Some(now + Duration::from_secs(3)));
    }
}
