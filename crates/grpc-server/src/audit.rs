//! The audit logger `stdout_logger` (gRFC A59): one line of JSON per event.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use oxds_core::rbac::AuditEvent;
use serde_json::json;

/// Writes an event to standard output. An error of standard output is ignored: it must not fail the RPC.
pub(crate) fn write(event: &AuditEvent<'_>) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let line = line(event, now.unwrap_or_default());
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

/// Returns the line of an event, with the names of grpc-go and C-core.
fn line(event: &AuditEvent<'_>, since_epoch: Duration) -> String {
    let log = json!({ "grpc_audit_log": {
        "timestamp": timestamp(since_epoch),
        "rpc_method": event.rpc_method,
        "principal": event.principal,
        "policy_name": event.policy_name,
        "matched_rule": event.matched_rule,
        "authorized": event.authorized,
    }});
    format!("{log}\n")
}

/// Formats a time in UTC as RFC 3339 writes it, in milliseconds.
fn timestamp(since_epoch: Duration) -> String {
    const DAY: u64 = 86_400;
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    let millis = since_epoch.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Returns year, month and day of the Gregorian calendar, by the number of days since 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years are counted from March, so that a leap day is the last day of its year; 719,468 days before 1970 an era of
    // 400 years with 146,097 days began.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a59_timestamp_is_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let at = Duration::from_secs(seconds) + Duration::from_millis(7);
            assert_eq!(timestamp(at), text);
        }
    }

    #[test]
    fn a59_event_is_one_line_of_json() {
        let event = AuditEvent {
            rpc_method: "/a.B/\"C\"\n",
            principal: "spiffe://a/b",
            policy_name: "rbac",
            matched_rule: "admins",
            authorized: true,
        };
        let text = line(&event, Duration::ZERO);
        assert_eq!(text.matches('\n').count(), 1);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let log = &read["grpc_audit_log"];
        assert_eq!(log["rpc_method"], event.rpc_method);
        assert_eq!(log["principal"], event.principal);
        assert_eq!(log["authorized"], true);
    }
}
