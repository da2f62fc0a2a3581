//! C-250: client-side weighted round robin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::lb::Connectivity::{Ready, TransientFailure};
use oxds_core::lb::policy::{
    EndpointWeight, Policy, PolicyConfig, PolicyInput, PolicyUpdate, WeightState,
    WeightedRoundRobinConfig,
};
use oxds_core::time::Instant;
use oxds_types::orca::OrcaLoadReport;

use super::{built, counts, locality, randoms};

/// A report of requests per second and utilization.
fn report(rate: f64, utilization: f64) -> OrcaLoadReport {
    OrcaLoadReport {
        rps_fractional: rate,
        application_utilization: utilization,
        ..OrcaLoadReport::default()
    }
}

fn at(seconds: u64) -> Instant {
    Instant::EPOCH + Duration::from_secs(seconds)
}

/// The default without a blackout period.
fn config() -> WeightedRoundRobinConfig {
    WeightedRoundRobinConfig {
        blackout_period: Duration::ZERO,
        ..WeightedRoundRobinConfig::default()
    }
}

/// The weight after one report, without a blackout period.
fn weight_of(report: &OrcaLoadReport, config: &WeightedRoundRobinConfig) -> f32 {
    let weight = EndpointWeight::default();
    weight.handle_report(at(0), report, config);
    weight.get(at(0), config)
}

/// A policy over endpoints with these weights, and its update.
fn updated(weights: &[f64]) -> (Policy, PolicyUpdate) {
    let config = Arc::new(config());
    let policy = built(
        &PolicyConfig::WeightedRoundRobin(Arc::clone(&config)),
        &[locality(1, 1, &vec![1; weights.len()])],
    );
    let make = |weight: &f64| {
        let known = Arc::new(EndpointWeight::default());
        known.handle_report(at(0), &report(*weight, 1.0), &config);
        known
    };
    let weights: Vec<_> = weights.iter().map(make).collect();
    let input = PolicyInput {
        now: at(0),
        states: &vec![Ready; weights.len()],
        weights: &weights,
    };
    let update = policy.update(input, &mut randoms());
    (policy, update)
}

#[test]
fn c250_picks_follow_the_weights() {
    let (policy, update) = updated(&[1.0, 2.0, 5.0]);
    assert_eq!(policy.update_period(), Some(Duration::from_secs(1)));
    let counts = counts(&update, 8_000);
    for (child, expected) in [(0, 1_000_usize), (1, 2_000), (2, 5_000)] {
        assert!(counts[&child].abs_diff(expected) < 20, "{counts:?}");
    }
    assert_eq!(
        update.picker.weights(),
        [(0, 13_107), (1, 26_214), (2, 65_535)]
    );
}

#[test]
fn c250_missing_weight_is_the_mean() {
    let (_, update) = updated(&[1.0, 3.0, 0.0]);
    let counts = counts(&update, 6_000);
    for (child, expected) in [(0, 1_000_usize), (1, 3_000), (2, 2_000)] {
        assert!(counts[&child].abs_diff(expected) < 20, "{counts:?}");
    }
}

#[test]
fn c250_fewer_than_two_weights_mean_round_robin() {
    for weights in [&[0.0, 0.0, 0.0][..], &[5.0, 0.0, 0.0]] {
        let (_, update) = updated(weights);
        assert_eq!(
            counts(&update, 300),
            BTreeMap::from([(0, 100), (1, 100), (2, 100)])
        );
        assert_eq!(update.picker.weights(), []);
    }
}

#[test]
fn c260_weights_are_reported_by_locality_with_their_state() {
    let weighted = Arc::new(WeightedRoundRobinConfig {
        blackout_period: Duration::from_secs(10),
        ..WeightedRoundRobinConfig::default()
    });
    let policy = PolicyConfig::WeightedRoundRobin(Arc::clone(&weighted));
    let policy = PolicyConfig::WrrLocality(Arc::new(policy));
    let policy = built(&policy, &[locality(1, 1, &[1; 3]), locality(2, 1, &[1; 2])]);
    // given one endpoint that has reported long enough, one that has just begun, and one whose last report is old
    let weights: Vec<_> = (0..5)
        .map(|_| Arc::new(EndpointWeight::default()))
        .collect();
    let reports = [(0, 0), (0, 190), (0, 200), (1, 195), (2, 0), (4, 200)];
    for (child, seconds) in reports {
        weights[child].handle_report(at(seconds), &report(10.0, 1.0), &weighted);
    }
    let input = PolicyInput {
        now: at(200),
        states: &[Ready, Ready, Ready, TransientFailure, Ready],
        weights: &weights,
    };
    let reports = policy.weight_reports(input);
    let (usable, young, stale) = (
        WeightState::Usable(10.0),
        WeightState::NotYetUsable,
        WeightState::Stale,
    );
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0].weights, [usable, young, stale]);
    assert_eq!((reports[0].child, reports[0].is_of_locality), (0, true));
    assert!(reports[0].is_fallback());
    // and only endpoints that are ready count
    assert_eq!(reports[1].weights, [young]);
    assert_eq!(reports[1].child, 4);
    // and policies without weights report none
    let other = built(&PolicyConfig::RoundRobin, &[locality(1, 1, &[1; 3])]);
    assert!(other.weight_reports(input).is_empty());
}

#[test]
fn c250_extreme_weights_are_capped() {
    // given nineteen of weight 1 and one of a thousand: the mean is 50.95
    let mut weights = vec![1.0; 19];
    weights.push(1_000.0);
    let (_, update) = updated(&weights);
    let weights: BTreeMap<_, _> = update.picker.weights().into_iter().collect();
    // then the largest counts as ten times the mean, and the others as what they are of it
    assert_eq!(weights[&19], 65_535);
    let expected = 65_535.0 / (10.0 * 50.95);
    assert!(
        (f64::from(weights[&0]) - expected).abs() < 1.0,
        "{weights:?}"
    );
    // and a weight below a hundredth of the mean is raised
    let (_, update) = updated(&[1_000.0, 1_000.0, 0.001]);
    let weights: BTreeMap<_, _> = update.picker.weights().into_iter().collect();
    assert!((430..=440).contains(&weights[&2]), "{weights:?}");
}

#[test]
fn c250_weight_is_rate_by_utilization_and_penalty() {
    let config = config();
    assert_eq!(weight_of(&report(100.0, 0.5), &config), 200.0);
    let failing = OrcaLoadReport {
        eps: 25.0,
        ..report(100.0, 0.5)
    };
    // gRFC A58: 100 / (0.5 + 25/100 · 1.0)
    assert!((weight_of(&failing, &config) - 133.333).abs() < 0.01);
    let lenient = WeightedRoundRobinConfig {
        error_utilization_penalty: 0.0,
        ..config.clone()
    };
    assert_eq!(weight_of(&failing, &lenient), 200.0);
}

#[test]
fn c250_utilization_is_own_then_named_then_cpu() {
    let named = WeightedRoundRobinConfig {
        metric_names: vec!["named_metrics.queue".into(), "utilization.disk".into()],
        ..config()
    };
    let mut report = OrcaLoadReport {
        cpu_utilization: 0.25,
        ..report(100.0, 0.0)
    };
    assert_eq!(weight_of(&report, &named), 400.0);
    report.named_metrics.insert("queue".to_owned(), 0.4);
    report.utilization.insert("disk".to_owned(), 0.5);
    assert_eq!(weight_of(&report, &named), 200.0);
    assert_eq!(weight_of(&report, &config()), 400.0);
    report.application_utilization = 0.8;
    assert_eq!(weight_of(&report, &named), 125.0);
}

#[test]
fn c250_unusable_report_changes_nothing() {
    let config = config();
    let weight = EndpointWeight::default();
    weight.handle_report(at(0), &report(10.0, 1.0), &config);
    let bad = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for value in bad {
        weight.handle_report(at(1), &report(value, 1.0), &config);
        weight.handle_report(at(1), &report(1.0, value), &config);
    }
    // The result must be a number, too.
    weight.handle_report(at(1), &report(f64::MAX, f64::MIN_POSITIVE), &config);
    assert_eq!(weight.get(at(1), &config), 10.0);
    // Error counts that are not numbers are ignored.
    for value in bad {
        let failing = OrcaLoadReport {
            eps: value,
            ..report(100.0, 0.5)
        };
        assert_eq!(weight_of(&failing, &config), 200.0);
    }
}

#[test]
fn c250_weight_counts_after_the_blackout_period() {
    let config = WeightedRoundRobinConfig::default();
    let weight = EndpointWeight::default();
    assert_eq!(weight.get(at(0), &config), 0.0);
    weight.handle_report(at(5), &report(10.0, 1.0), &config);
    assert_eq!(weight.get(at(14), &config), 0.0);
    assert_eq!(weight.get(at(15), &config), 10.0);
    // A new connection starts it again.
    weight.handle_connected();
    assert_eq!(weight.get(at(16), &config), 0.0);
    weight.handle_report(at(20), &report(30.0, 1.0), &config);
    assert_eq!(weight.get(at(29), &config), 0.0);
    assert_eq!(weight.get(at(30), &config), 30.0);
}

#[test]
fn c250_weight_expires_and_needs_another_blackout_period() {
    let config = WeightedRoundRobinConfig::default();
    let weight = EndpointWeight::default();
    weight.handle_report(at(0), &report(10.0, 1.0), &config);
    assert_eq!(weight.get(at(179), &config), 10.0);
    assert_eq!(weight.get(at(180), &config), 0.0);
    weight.handle_report(at(181), &report(10.0, 1.0), &config);
    assert_eq!(weight.get(at(190), &config), 0.0);
    assert_eq!(weight.get(at(191), &config), 10.0);
}

#[test]
fn c250_failed_children_get_no_share() {
    let config = Arc::new(config());
    let policy = built(
        &PolicyConfig::WeightedRoundRobin(Arc::clone(&config)),
        &[locality(1, 1, &[1; 3])],
    );
    let weights: Vec<_> = [1.0, 1.0, 1.0]
        .map(|rate| {
            let weight = EndpointWeight::default();
            weight.handle_report(at(0), &report(rate, 1.0), &config);
            Arc::new(weight)
        })
        .into();
    let input = PolicyInput {
        now: at(0),
        states: &[Ready, TransientFailure, Ready],
        weights: &weights,
    };
    let update = policy.update(input, &mut randoms());
    assert_eq!(counts(&update, 100), BTreeMap::from([(0, 50), (2, 50)]));
}
