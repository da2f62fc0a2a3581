//! C-237: fault injection.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::Duration;

use oxds_core::lb::{
    AbortStatus, FaultAbort, FaultConfig, FaultDelay, FaultShare, Faults, Headers,
};

const SECOND: Duration = Duration::from_secs(1);
const ABORT: AbortStatus = AbortStatus::Grpc(14);

struct Pairs<'a>(&'a [(&'a str, &'a str)]);

impl Headers for Pairs<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(known, _)| *known == name)?;
        Some(Cow::Borrowed(found.1))
    }
}

fn config(delay: Option<Duration>, abort: Option<AbortStatus>, share: FaultShare) -> FaultConfig {
    FaultConfig {
        delay: Some(FaultDelay {
            fixed: delay,
            share,
        }),
        abort: Some(FaultAbort {
            fixed: abort,
            share,
        }),
        max_active: None,
    }
}

/// Faults that are always drawn, if their share is not zero.
fn draw(config: &FaultConfig, headers: &[(&str, &str)]) -> Faults {
    config.draw(&Pairs(headers), || 0, || 0)
}

#[test]
fn c237_delay_and_abort_are_drawn_independently() {
    let half = FaultShare {
        numerator: 50,
        denominator: 100,
    };
    let config = config(Some(SECOND), Some(ABORT), half);
    for (first, second) in [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
        let numbers = Cell::new(Some(first));
        let random = || numbers.take().unwrap_or(second);
        let faults = config.draw(&Pairs(&[]), || 0, random);
        assert_eq!(faults.delay, (first == 0).then_some(SECOND));
        assert_eq!(faults.abort, (second == 0).then_some(ABORT));
    }
}

#[test]
fn c237_share_of_zero_never_and_of_all_always() {
    let none = config(Some(SECOND), Some(ABORT), FaultShare::NONE);
    assert_eq!(draw(&none, &[]), Faults::default());
    let all = config(Some(SECOND), Some(ABORT), FaultShare::ALL);
    let faults = all.draw(&Pairs(&[]), || 0, || u64::MAX);
    assert_eq!((faults.delay, faults.abort), (Some(SECOND), Some(ABORT)));
}

#[test]
fn c237_active_faults_are_limited() {
    let limited = FaultConfig {
        max_active: Some(2),
        ..config(Some(SECOND), Some(ABORT), FaultShare::ALL)
    };
    let at = |active: u32| limited.draw(&Pairs(&[]), || active, || 0);
    assert_eq!(at(1).delay, Some(SECOND));
    assert_eq!(at(2), Faults::default());
    let abort_only = FaultConfig {
        delay: None,
        ..limited.clone()
    };
    assert_eq!(abort_only.draw(&Pairs(&[]), || 1, || 0).abort, Some(ABORT));
    assert_eq!(abort_only.draw(&Pairs(&[]), || 2, || 0).abort, None);
}

#[test]
fn c237_headers_control_faults_only_if_asked_for() {
    let headers = [
        ("x-envoy-fault-delay-request", "53"),
        ("x-envoy-fault-abort-grpc-request", "3"),
        ("x-envoy-fault-abort-request", "503"),
    ];
    let fixed = config(Some(SECOND), Some(ABORT), FaultShare::ALL);
    assert_eq!(draw(&fixed, &headers).delay, Some(SECOND));
    assert_eq!(draw(&fixed, &headers).abort, Some(ABORT));
    let by_header = config(None, None, FaultShare::ALL);
    assert_eq!(
        draw(&by_header, &headers).delay,
        Some(Duration::from_millis(53))
    );
    assert_eq!(draw(&by_header, &headers).abort, Some(AbortStatus::Grpc(3)));
    let http = draw(&by_header, &headers[2..]);
    assert_eq!(http.abort, Some(AbortStatus::Http(503)));
    assert_eq!(draw(&by_header, &[]), Faults::default());
}

#[test]
fn c237_invalid_headers_are_ignored() {
    let by_header = config(None, None, FaultShare::ALL);
    for value in ["", "-1", "x", "17", "99999999999"] {
        let abort = draw(&by_header, &[("x-envoy-fault-abort-grpc-request", value)]).abort;
        assert_eq!(abort, None, "{value}");
    }
    for value in ["", "-1", "x", "1.5", "99999999999"] {
        let delay = draw(&by_header, &[("x-envoy-fault-delay-request", value)]).delay;
        assert_eq!(delay, None, "{value}");
    }
}

#[test]
fn c237_header_lowers_the_share_and_never_raises_it() {
    let tenth = FaultShare {
        numerator: 10,
        denominator: 100,
    };
    let by_header = config(None, None, tenth);
    let drawn = |percentage: &str, percent: u64| {
        let headers = [
            ("x-envoy-fault-abort-grpc-request", "3"),
            ("x-envoy-fault-abort-request-percentage", percentage),
        ];
        // A random number just inside the share of `percent`.
        let random = u64::MAX / 100 * percent - u64::MAX / 200;
        let faults = by_header.draw(&Pairs(&headers), || 0, || random);
        faults.abort.is_some()
    };
    assert!(drawn("10", 10));
    assert!(!drawn("100", 11));
    assert!(!drawn("5", 6));
    assert!(drawn("5", 5));
    assert!(!drawn("0", 1));
    // An invalid header leaves the share of the configuration.
    assert!(drawn("x", 10));
}
