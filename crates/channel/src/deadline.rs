//! The deadline of an RPC: the application's, or the route's limit if that ends earlier (gRFC A31).
//!
//! The time counts from the call, so the deadline covers the wait for a configuration, the wait for a
//! connection, and the response.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Instant at which the RPC must end, if it has a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the application's deadline, which gRPC front ends send as the `grpc-timeout` header.
    pub(crate) fn of_request(headers: &HeaderMap) -> Self {
        // Without the header the clock is not read: most calls save that cost.
        let timeout = headers.get(GRPC_TIMEOUT).and_then(parse);
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

    /// Writes the remaining time to the `grpc-timeout` header, for the backend. Returns false, and writes nothing, if no time
    /// is left.
    pub(crate) fn write(self, headers: &mut HeaderMap) -> bool {
        let Some(end) = self.0 else { return true };
        let left = end.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            headers.insert(GRPC_TIMEOUT, format(left));
        }
        !left.is_zero()
    }
}

/// Parses `TimeoutValue TimeoutUnit` of the gRPC protocol: at most 8 digits, then one of `H M S m u n`.
/// Returns `None` for a malformed value, which counts as no timeout.
fn parse(value: &HeaderValue) -> Option<Duration> {
    let (digits, unit) = value
        .to_str()
        .ok()?
        .split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

/// Formats the timeout in the finest unit in which its value fits 8 digits.
fn format(timeout: Duration) -> HeaderValue {
    const LIMIT: u128 = 100_000_000;
    let units = [
        (timeout.as_nanos(), 'n'),
        (timeout.as_micros(), 'u'),
        (timeout.as_millis(), 'm'),
        (u128::from(timeout.as_secs()), 'S'),
        (u128::from(timeout.as_secs() / 60), 'M'),
    ];
    let text = units
        .into_iter()
        .find(|(n, _)| *n < LIMIT)
        .map_or_else(|| "99999999H".to_owned(), |(n, unit)| format!("{n}{unit}"));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("99999999H"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &'static str) -> Option<Duration> {
        parse(&HeaderValue::from_static(text))
    }

    #[test]
    fn parse_accepts_every_unit() {
        assert_eq!(parsed("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(parsed("3M"), Some(Duration::from_secs(180)));
        assert_eq!(parsed("4S"), Some(Duration::from_secs(4)));
        assert_eq!(parsed("5m"), Some(Duration::from_millis(5)));
        assert_eq!(parsed("6u"), Some(Duration::from_micros(6)));
        assert_eq!(parsed("7n"), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn parse_ignores_malformed_values() {
        for bad in ["", "S", "5", "5s", "-5S", "123456789S", "5 S", "1.5S"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn format_and_parse_round_trip() {
        for timeout in [
            Duration::ZERO,
            Duration::from_millis(99),
            Duration::from_secs(20),
            Duration::from_secs(86_400),
        ] {
            assert_eq!(parse(&format(timeout)), Some(timeout));
        }
    }

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
