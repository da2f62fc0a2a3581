//! The `grpc-timeout` header.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

/// Name of the header with the time that an RPC has.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Parses `TimeoutValue TimeoutUnit` of the gRPC protocol: at most 8 digits, then one of `H M S m u n`.
/// Returns `None` for a malformed value, which counts as no timeout.
#[must_use]
pub fn parse_timeout(value: &HeaderValue) -> Option<Duration> {
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
#[must_use]
pub fn format_timeout(timeout: Duration) -> HeaderValue {
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
        parse_timeout(&HeaderValue::from_static(text))
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
            assert_eq!(parse_timeout(&format_timeout(timeout)), Some(timeout));
        }
    }
}
