//! C-192, C-234: retries by policy.

use std::time::Duration;

use oxds_core::lb::{Pushback, Retries, RetryPolicy, StatusCodes};

const UNAVAILABLE: u32 = 14;
/// A random number in the middle: no jitter.
const MIDDLE: u64 = 1 << 63;

fn policy(attempts: u32) -> RetryPolicy {
    let mut codes = StatusCodes::default();
    codes.insert(UNAVAILABLE);
    RetryPolicy {
        codes,
        max_attempts: attempts,
        base: Duration::from_millis(100),
        max: Duration::from_millis(350),
    }
}

#[test]
fn c234_back_off_doubles_up_to_the_maximum() {
    let mut retries = Retries::default();
    let mut fail = || retries.handle_failure(&policy(5), UNAVAILABLE, Pushback::None, MIDDLE);
    let delays: Vec<_> = std::iter::from_fn(&mut fail).collect();
    assert_eq!(delays, [100, 200, 350, 350].map(Duration::from_millis));
    assert_eq!(retries.previous_attempts(), 4);
}

#[test]
fn c234_jitter_is_a_fifth_in_both_directions() {
    let delay = |random| {
        let mut retries = Retries::default();
        retries.handle_failure(&policy(2), UNAVAILABLE, Pushback::None, random)
    };
    assert_eq!(delay(0), Some(Duration::from_millis(80)));
    let longest = delay(u64::MAX).unwrap();
    assert!(longest <= Duration::from_millis(120), "{longest:?}");
    assert!(longest > Duration::from_micros(119_999), "{longest:?}");
}

#[test]
fn c234_other_codes_end_the_rpc() {
    let mut retries = Retries::default();
    for code in (0..=20).filter(|code| *code != UNAVAILABLE) {
        let retry = retries.handle_failure(&policy(5), code, Pushback::None, MIDDLE);
        assert_eq!(retry, None, "{code}");
    }
    assert_eq!(retries.previous_attempts(), 0);
}

#[test]
fn c234_pushback_replaces_and_restarts_the_back_off() {
    let mut retries = Retries::default();
    let mut fail = |pushback| retries.handle_failure(&policy(5), UNAVAILABLE, pushback, MIDDLE);
    let asked = Duration::from_secs(7);
    assert_eq!(fail(Pushback::None), Some(Duration::from_millis(100)));
    assert_eq!(fail(Pushback::After(asked)), Some(asked));
    assert_eq!(fail(Pushback::None), Some(Duration::from_millis(100)));
    assert_eq!(fail(Pushback::Stop), None);
}

#[test]
fn c234_malformed_pushback_stops_retries() {
    let parse = |values: &[&'static str]| Pushback::parse(values.iter().map(|v| v.as_bytes()));
    assert_eq!(parse(&[]), Pushback::None);
    assert_eq!(parse(&["0"]), Pushback::After(Duration::ZERO));
    assert_eq!(parse(&["25"]), Pushback::After(Duration::from_millis(25)));
    for bad in [
        &["-1"][..],
        &[""],
        &["x"],
        &["1", "2"],
        &["99999999999"],
        &["1.5"],
    ] {
        assert_eq!(parse(bad), Pushback::Stop, "{bad:?}");
    }
    assert_eq!(Pushback::parse([&b"\xff"[..]]), Pushback::Stop);
}

#[test]
fn c234_longest_back_off_does_not_overflow() {
    let policy = RetryPolicy {
        base: Duration::MAX,
        max: Duration::MAX,
        ..policy(5)
    };
    let mut retries = Retries::default();
    while let Some(delay) = retries.handle_failure(&policy, UNAVAILABLE, Pushback::None, u64::MAX) {
        assert_eq!(delay, Duration::MAX);
    }
    assert_eq!(retries.previous_attempts(), 4);
}
