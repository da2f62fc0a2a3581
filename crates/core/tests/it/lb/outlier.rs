//! C-252: outlier detection.

use std::net::SocketAddr;
use std::time::Duration;

use oxds_core::lb::{
    EjectionReason, FailurePercentage, OutlierConfig, OutlierDecisions, OutlierDetector,
    SuccessRate,
};
use oxds_core::time::Instant;

fn at(seconds: u64) -> Instant {
    Instant::from_epoch(Duration::from_secs(seconds))
}

fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// Both algorithms off.
fn off() -> OutlierConfig {
    OutlierConfig {
        interval: Duration::from_secs(10),
        base_ejection_time: Duration::from_secs(30),
        max_ejection_time: Duration::from_secs(50),
        max_ejection_percent: 50,
        success_rate: None,
        failure_percentage: None,
    }
}

fn by_failures() -> OutlierConfig {
    OutlierConfig {
        failure_percentage: Some(FailurePercentage {
            threshold: 50,
            enforcement_percentage: 100,
            minimum_hosts: 2,
            request_volume: 10,
        }),
        ..off()
    }
}

fn by_success_rate() -> OutlierConfig {
    OutlierConfig {
        success_rate: Some(SuccessRate {
            stdev_factor: 1900,
            enforcement_percentage: 100,
            minimum_hosts: 5,
            request_volume: 10,
        }),
        ..off()
    }
}

/// A detector of these endpoints, configured at second 0.
fn detector(config: &OutlierConfig, ports: u16) -> OutlierDetector {
    let mut detector = OutlierDetector::new();
    detector.set_endpoints((1..=ports).map(address));
    detector.configure(at(0), Some(config));
    detector
}

/// Counts calls to an endpoint.
fn calls(detector: &OutlierDetector, port: u16, succeeded: u64, failed: u64) {
    let results = detector.results(address(port)).unwrap();
    (0..succeeded).for_each(|_| results.add(true));
    (0..failed).for_each(|_| results.add(false));
}

/// Handles the timeout at a second, with enforcement, and returns whether something changed.
fn tick(detector: &mut OutlierDetector, seconds: u64) -> bool {
    assert_eq!(detector.poll_timeout(), Some(at(seconds)));
    detector.handle_timeout(at(seconds), || 0)
}

fn ejected(detector: &OutlierDetector, ports: u16) -> Vec<u16> {
    let is_ejected = |port: &u16| detector.ejection(address(*port)).is_some();
    (1..=ports).filter(is_ejected).collect()
}

#[test]
fn c252_endpoint_above_the_failure_threshold_is_ejected() {
    let mut detector = detector(&by_failures(), 3);
    calls(&detector, 1, 9, 11);
    calls(&detector, 2, 10, 10);
    calls(&detector, 3, 0, 9);
    assert!(tick(&mut detector, 10));
    // Half of the calls is not above 50 %, and nine calls are too few.
    assert_eq!(ejected(&detector, 3), [1]);
    let ejection = detector.ejection(address(1)).unwrap();
    assert_eq!(ejection.reason, EjectionReason::FailurePercentage);
    assert_eq!((ejection.since, ejection.until), (at(10), at(40)));
}

#[test]
fn c252_success_rate_far_below_the_mean_is_ejected() {
    let mut detector = detector(&by_success_rate(), 10);
    for port in 1..=9 {
        calls(&detector, port, 100, 0);
    }
    calls(&detector, 10, 50, 50);
    assert!(tick(&mut detector, 10));
    assert_eq!(ejected(&detector, 10), [10]);
    let ejection = detector.ejection(address(10)).unwrap();
    assert_eq!(ejection.reason, EjectionReason::SuccessRate);
}

#[test]
fn c252_too_few_endpoints_with_calls_eject_none() {
    let mut few = detector(&by_success_rate(), 10);
    for port in 1..=3 {
        calls(&few, port, 100, 0);
    }
    calls(&few, 4, 0, 100);
    assert!(!tick(&mut few, 10));
    let mut one = detector(&by_failures(), 3);
    calls(&one, 1, 0, 100);
    assert!(!tick(&mut one, 10));
}

#[test]
fn c252_maximum_share_limits_ejections_but_allows_one() {
    let config = OutlierConfig {
        max_ejection_percent: 0,
        ..by_failures()
    };
    let mut one = detector(&config, 4);
    (1..=4).for_each(|port| calls(&one, port, 0, 10));
    assert!(tick(&mut one, 10));
    assert_eq!(ejected(&one, 4).len(), 1);
    let mut half = detector(&by_failures(), 4);
    (1..=4).for_each(|port| calls(&half, port, 0, 10));
    assert!(tick(&mut half, 10));
    assert_eq!(ejected(&half, 4).len(), 2);
}

#[test]
fn c260_decisions_about_outliers_are_counted() {
    let decisions = |ejected, not_enforced, above_maximum| OutlierDecisions {
        ejected,
        not_enforced,
        above_maximum,
    };
    // given four outliers, of which half may be ejected, and a good endpoint
    let mut all = detector(&by_failures(), 5);
    (1..=4).for_each(|port| calls(&all, port, 0, 10));
    calls(&all, 5, 10, 0);
    tick(&mut all, 10);
    let counts = all.take_counts();
    assert_eq!(counts.failure_percentage, decisions(3, 0, 1));
    assert_eq!(counts.success_rate, OutlierDecisions::default());
    // and they are taken once, and those that are ejected do not count again
    (1..=4).for_each(|port| calls(&all, port, 0, 10));
    tick(&mut all, 20);
    assert_eq!(all.take_counts().failure_percentage, decisions(0, 0, 1));
    // given the other algorithm, and a chance of ejection that is missed
    let mut config = by_success_rate();
    config.success_rate.as_mut().unwrap().enforcement_percentage = 50;
    let mut rates = detector(&config, 10);
    (1..=9).for_each(|port| calls(&rates, port, 100, 0));
    calls(&rates, 10, 50, 50);
    rates.handle_timeout(at(10), || u64::MAX);
    assert_eq!(rates.take_counts().success_rate, decisions(0, 1, 0));
}

#[test]
fn c252_enforcement_is_drawn_for_each_outlier() {
    let mut config = by_failures();
    config
        .failure_percentage
        .as_mut()
        .unwrap()
        .enforcement_percentage = 25;
    let quarter = u64::MAX / 4;
    for (random, count) in [(quarter - 1000, 1), (quarter + 1000, 0)] {
        let mut detector = detector(&config, 2);
        calls(&detector, 1, 0, 10);
        calls(&detector, 2, 10, 0);
        detector.handle_timeout(at(10), || random);
        assert_eq!(ejected(&detector, 2).len(), count);
    }
}

#[test]
fn c252_ejection_lasts_longer_each_time_up_to_the_maximum() {
    let mut detector = detector(&by_failures(), 2);
    let mut now = 0;
    for lasted in [30, 50, 50] {
        calls(&detector, 1, 0, 10);
        calls(&detector, 2, 10, 0);
        now += 10;
        assert!(tick(&mut detector, now));
        let start = now;
        while ejected(&detector, 2) == [1] {
            now += 10;
            tick(&mut detector, now);
        }
        assert_eq!(now - start, lasted);
    }
}

#[test]
fn c252_multiplier_shrinks_with_each_interval_without_ejection() {
    let mut detector = detector(&by_failures(), 2);
    calls(&detector, 1, 0, 10);
    calls(&detector, 2, 10, 0);
    for second in [10, 20, 30, 40, 50] {
        tick(&mut detector, second);
    }
    assert!(ejected(&detector, 2).is_empty());
    calls(&detector, 1, 0, 10);
    calls(&detector, 2, 10, 0);
    tick(&mut detector, 60);
    // As long as the first time.
    assert_eq!(detector.ejection(address(1)).unwrap().until, at(90));
}

#[test]
fn c252_results_of_one_interval_do_not_count_in_the_next() {
    let mut detector = detector(&by_failures(), 2);
    calls(&detector, 1, 0, 9);
    calls(&detector, 2, 10, 0);
    assert!(!tick(&mut detector, 10));
    calls(&detector, 1, 0, 9);
    calls(&detector, 2, 10, 0);
    assert!(!tick(&mut detector, 20));
}

#[test]
fn c252_no_algorithm_means_no_counter_and_no_timer() {
    let mut detector = detector(&by_failures(), 2);
    calls(&detector, 1, 0, 10);
    calls(&detector, 2, 10, 0);
    tick(&mut detector, 10);
    assert!(detector.configure(at(11), Some(&off())));
    assert!(ejected(&detector, 2).is_empty());
    assert_eq!(detector.poll_timeout(), None);
    assert!(detector.results(address(1)).is_none());
    assert!(!detector.configure(at(12), None));
}

#[test]
fn c252_update_keeps_interval_and_ejections() {
    let mut detector = detector(&by_failures(), 3);
    calls(&detector, 1, 0, 10);
    calls(&detector, 2, 10, 0);
    tick(&mut detector, 10);
    let quicker = OutlierConfig {
        interval: Duration::from_secs(4),
        ..by_failures()
    };
    detector.configure(at(13), Some(&quicker));
    assert_eq!(detector.poll_timeout(), Some(at(14)));
    detector.set_endpoints([1, 9].map(address));
    assert_eq!(ejected(&detector, 9), [1]);
    detector.set_endpoints([9].map(address));
    detector.set_endpoints([1, 9].map(address));
    assert!(ejected(&detector, 9).is_empty());
}
