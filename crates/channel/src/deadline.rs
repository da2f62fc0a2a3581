//! The time an RPC may take: what the application set, bounded by the route (A31).
//!
//! The deadline counts from the call on, so it covers the wait for a configuration and for a
//! connection as well as the answer.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// When the RPC must be over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// The application's deadline, which gRPC front ends carry as the `grpc-timeout` header.
    pub(crate) fn of_request(headers: &HeaderMap) -> Self {
        // Without the header the clock is not read: a call costs nothing for what it lacks.
        let timeout = headers.get(GRPC_TIMEOUT).and_then(parse);
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Bounds it by a limit counted from `started` (C-233: the smaller wins).
    pub(crate) fn limit(&mut self, started: Instant, limit: Duration) {
        if let Some(end) = started.checked_add(limit) {
            self.0 = Some(self.0.map_or(end, |own| own.min(end)));
        }
    }

    pub(crate) fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Tells the backend what is left.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        if let Some(end) = self.0 {
            let left = end.saturating_duration_since(Instant::now());
            headers.insert(GRPC_TIMEOUT, format(left));
        }
    }
}

/// `TimeoutValue TimeoutUnit` of the gRPC protocol: at most 8 digits, one of `H M S m u n`.
/// A malformed value is ignored, as the server would not know it either.
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

/// The finest unit in which the value fits 8 digits.
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
    fn reads_every_unit() {
        assert_eq!(parsed("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(parsed("3M"), Some(Duration::from_secs(180)));
        assert_eq!(parsed("4S"), Some(Duration::from_secs(4)));
        assert_eq!(parsed("5m"), Some(Duration::from_millis(5)));
        assert_eq!(parsed("6u"), Some(Duration::from_micros(6)));
        assert_eq!(parsed("7n"), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn ignores_what_the_protocol_does_not_know() {
        for bad in ["", "S", "5", "5s", "-5S", "123456789S", "5 S", "1.5S"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
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
    fn c233_the_smaller_of_both_wins() {
        let now = Instant::now();
        let mut deadline = Deadline::default();
        deadline.limit(now, Duration::from_secs(9));
        deadline.limit(now, Duration::from_secs(3));
        deadline.limit(now, Duration::from_secs(5));
        assert_eq!(deadline.instant(), Some(now + Duration::from_secs(3)));
    }
}
