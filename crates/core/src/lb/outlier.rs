//! Outlier detection (gRFC A50): which endpoints get no traffic because their calls fail.
//!
//! ```text
//!               ┌── every interval: its share of failures is an outlier, and few enough others are ejected ──┐
//!               │                                                                                            ▼
//!  ┌────────────────────────┐                                                                ┌───────────────────────────┐
//!  │ in use (multiplier: n) │                                                                │ ejected (multiplier: n+1) │
//!  └────────────────────────┘                                                                └───────────────────────────┘
//!    │ at each later interval ▲                                                                              │
//!    └─ n is reduced by 1     └───────────── base time × multiplier, limited by the maximum, is over ────────┘
//! ```
//!
//! Call [`set_endpoints`](OutlierDetector::set_endpoints) and [`configure`](OutlierDetector::configure) after each
//! update, and [`handle_timeout`](OutlierDetector::handle_timeout) when [`poll_timeout`](OutlierDetector::poll_timeout)
//! says so. Calls are counted by [`CallResults`], which are atomics.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::chance::scale;
use crate::time::Instant;

/// Configuration of outlier detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlierConfig {
    /// Time between two decisions; above zero.
    pub interval: Duration,
    /// Time of the first ejection of an endpoint.
    pub base_ejection_time: Duration,
    /// Maximum time of an ejection; `base_ejection_time` counts if it is longer.
    pub max_ejection_time: Duration,
    /// Maximum share of ejected endpoints, in percent. One endpoint may always be ejected.
    pub max_ejection_percent: u32,
    /// Ejection by comparison of success rates; off without one.
    pub success_rate: Option<SuccessRate>,
    /// Ejection by a fixed threshold of failures; off without one.
    pub failure_percentage: Option<FailurePercentage>,
}

/// Ejects endpoints whose success rate is far below the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuccessRate {
    /// Distance below the mean, in thousandths of the standard deviation.
    pub stdev_factor: u32,
    /// Probability with which an outlier is ejected, in percent.
    pub enforcement_percentage: u32,
    /// Minimum number of endpoints with enough calls.
    pub minimum_hosts: u32,
    /// Minimum number of calls of an endpoint in one interval.
    pub request_volume: u32,
}

/// Ejects endpoints that fail more than a share of their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePercentage {
    /// Share of failures above which an endpoint is an outlier, in percent.
    pub threshold: u32,
    /// Probability with which an outlier is ejected, in percent.
    pub enforcement_percentage: u32,
    /// Minimum number of endpoints with enough calls.
    pub minimum_hosts: u32,
    /// Minimum number of calls of an endpoint in one interval.
    pub request_volume: u32,
}

impl OutlierConfig {
    /// Returns whether no algorithm is on. Then calls need not be counted.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.success_rate.is_none() && self.failure_percentage.is_none()
    }

    /// Returns the time of an ejection with this multiplier.
    fn ejection_time(&self, multiplier: u32) -> Duration {
        let most = self.max_ejection_time.max(self.base_ejection_time);
        self.base_ejection_time.saturating_mul(multiplier).min(most)
    }
}

/// Results of the calls to one endpoint since the last decision.
#[derive(Debug, Default)]
pub struct CallResults {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl CallResults {
    /// Counts the end of a call. It succeeded if its status was OK.
    pub fn add(&self, succeeded: bool) {
        let counter = if succeeded {
            &self.succeeded
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self) -> Bucket {
        Bucket {
            succeeded: self.succeeded.swap(0, Ordering::Relaxed),
            failed: self.failed.swap(0, Ordering::Relaxed),
        }
    }
}

/// Results of one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    succeeded: u64,
    failed: u64,
}

impl Bucket {
    fn total(self) -> u64 {
        self.succeeded + self.failed
    }

    /// Share of successful calls, from 0 to 1.
    fn success_rate(self) -> f64 {
        self.succeeded as f64 / self.total().max(1) as f64
    }
}

/// Algorithm that ejected an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EjectionReason {
    /// The success rate was far below the mean.
    SuccessRate,
    /// The share of failures was above the threshold.
    FailurePercentage,
}

/// Ejection of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Start of the ejection.
    pub since: Instant,
    /// Time at which the endpoint returns at the earliest; it returns at the next interval.
    pub until: Instant,
    /// Algorithm that decided.
    pub reason: EjectionReason,
}

/// Number of outliers by the decision about them (gRFC A91).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutlierCounts {
    /// Outliers by success rate.
    pub success_rate: OutlierDecisions,
    /// Outliers by failure percentage.
    pub failure_percentage: OutlierDecisions,
}

/// Decisions of one algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutlierDecisions {
    /// Endpoints that were ejected.
    pub ejected: u64,
    /// Endpoints that were not ejected by chance: the enforcement percentage.
    pub not_enforced: u64,
    /// Endpoints that were not ejected because the maximum share of the endpoints was.
    pub above_maximum: u64,
}

impl OutlierCounts {
    fn of(&mut self, reason: EjectionReason) -> &mut OutlierDecisions {
        match reason {
            EjectionReason::SuccessRate => &mut self.success_rate,
            EjectionReason::FailurePercentage => &mut self.failure_percentage,
        }
    }
}

/// State of one endpoint.
#[derive(Debug, Default)]
struct Endpoint {
    results: Arc<CallResults>,
    last: Bucket,
    ejection: Option<Ejection>,
    /// Number of ejections, less the intervals without one.
    multiplier: u32,
}

/// Outlier detection of one cluster.
#[derive(Debug, Default)]
pub struct OutlierDetector {
    config: Option<OutlierConfig>,
    endpoints: BTreeMap<SocketAddr, Endpoint>,
    /// Start of the current interval; `None` while no algorithm is on.
    interval_started: Option<Instant>,
    /// Decisions since they were taken.
    counts: OutlierCounts,
}

impl OutlierDetector {
    /// Makes a detector that is off.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the configuration. Without an algorithm, all endpoints return. Returns whether an ejection ended.
    pub fn configure(&mut self, now: Instant, config: Option<&OutlierConfig>) -> bool {
        let config = config.filter(|config| !config.is_off());
        self.config = config.cloned();
        if self.config.is_none() {
            self.interval_started = None;
            let mut ended = false;
            for endpoint in self.endpoints.values_mut() {
                ended |= endpoint.ejection.take().is_some();
                endpoint.multiplier = 0;
            }
            return ended;
        }
        // gRFC A50: a new configuration does not restart an interval that runs.
        if self.interval_started.is_none() {
            self.interval_started = Some(now);
            for endpoint in self.endpoints.values() {
                endpoint.results.take();
            }
        }
        false
    }

    /// Replaces the endpoints. Those that stay keep their state.
    pub fn set_endpoints(&mut self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let wanted: HashSet<_> = addresses.into_iter().collect();
        self.endpoints.retain(|address, _| wanted.contains(address));
        for address in wanted {
            self.endpoints.entry(address).or_default();
        }
    }

    /// Returns the counter of an endpoint's calls; `None` if no algorithm is on, or the endpoint is unknown.
    #[must_use]
    pub fn results(&self, address: SocketAddr) -> Option<Arc<CallResults>> {
        // gRFC A50: without an algorithm, calls are not counted.
        self.config.as_ref()?;
        Some(Arc::clone(&self.endpoints.get(&address)?.results))
    }

    /// Returns the ejection of an endpoint, if it is ejected.
    #[must_use]
    pub fn ejection(&self, address: SocketAddr) -> Option<Ejection> {
        self.endpoints.get(&address)?.ejection
    }

    /// Returns the ejected endpoints.
    pub fn ejections(&self) -> impl Iterator<Item = (SocketAddr, Ejection)> {
        let endpoints = self.endpoints.iter();
        endpoints.filter_map(|(address, endpoint)| Some((*address, endpoint.ejection?)))
    }

    /// Returns the decisions since the last call.
    pub fn take_counts(&mut self) -> OutlierCounts {
        std::mem::take(&mut self.counts)
    }

    /// Returns the time of the next decision; `None` if no algorithm is on.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.interval_started? + self.config.as_ref()?.interval)
    }

    /// Decides about all endpoints, if the interval is over. Returns whether an endpoint was ejected or has returned.
    pub fn handle_timeout(&mut self, now: Instant, mut random: impl FnMut() -> u64) -> bool {
        let Some(config) = self.config.clone() else {
            return false;
        };
        if self.poll_timeout().is_none_or(|at| now < at) {
            return false;
        }
        self.interval_started = Some(now);
        for endpoint in self.endpoints.values_mut() {
            endpoint.last = endpoint.results.take();
        }
        let mut changed = false;
        // gRFC A50: success rate first, then failure percentage.
        if let Some(rule) = &config.success_rate {
            changed |= self.eject_by_success_rate(now, &config, rule, &mut random);
        }
        if let Some(rule) = &config.failure_percentage {
            changed |= self.eject_by_failures(now, &config, rule, &mut random);
        }
        for endpoint in self.endpoints.values_mut() {
            match endpoint.ejection {
                None => endpoint.multiplier = endpoint.multiplier.saturating_sub(1),
                Some(ejection) if ejection.since < now && ejection.until <= now => {
                    endpoint.ejection = None;
                    changed = true;
                }
                Some(_) => {}
            }
        }
        changed
    }

    fn eject_by_success_rate(
        &mut self,
        now: Instant,
        config: &OutlierConfig,
        rule: &SuccessRate,
        random: &mut impl FnMut() -> u64,
    ) -> bool {
        let rates: Vec<f64> = self
            .with_volume(rule.request_volume)
            .map(Bucket::success_rate)
            .collect();
        if rates.is_empty() || rates.len() < rule.minimum_hosts as usize {
            return false;
        }
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
        let required = mean - variance.sqrt() * f64::from(rule.stdev_factor) / 1000.0;
        let is_outlier = |last: Bucket| {
            last.total() >= rule.request_volume.into() && last.success_rate() < required
        };
        let enforce = || scale(random(), 100) < rule.enforcement_percentage.into();
        self.eject(
            now,
            config,
            EjectionReason::SuccessRate,
            is_outlier,
            enforce,
        )
    }

    fn eject_by_failures(
        &mut self,
        now: Instant,
        config: &OutlierConfig,
        rule: &FailurePercentage,
        random: &mut impl FnMut() -> u64,
    ) -> bool {
        let count = self.with_volume(rule.request_volume).count();
        if count < rule.minimum_hosts as usize {
            return false;
        }
        let is_outlier = |last: Bucket| {
            let failed = u128::from(last.failed) * 100;
            last.total() >= rule.request_volume.into()
                && failed > u128::from(rule.threshold) * u128::from(last.total())
        };
        let enforce = || scale(random(), 100) < rule.enforcement_percentage.into();
        self.eject(
            now,
            config,
            EjectionReason::FailurePercentage,
            is_outlier,
            enforce,
        )
    }

    /// Returns the results of the endpoints with enough calls.
    fn with_volume(&self, volume: u32) -> impl Iterator<Item = Bucket> {
        let last = self.endpoints.values().map(|endpoint| endpoint.last);
        // An endpoint without calls has no rate, whatever the volume is.
        last.filter(move |last| last.total() > 0 && last.total() >= volume.into())
    }

    fn eject(
        &mut self,
        now: Instant,
        config: &OutlierConfig,
        reason: EjectionReason,
        is_outlier: impl Fn(Bucket) -> bool,
        mut enforce: impl FnMut() -> bool,
    ) -> bool {
        let total = self.endpoints.len();
        let mut ejected = self
            .endpoints
            .values()
            .filter(|one| one.ejection.is_some())
            .count();
        let mut changed = false;
        let counts = self.counts.of(reason);
        for endpoint in self.endpoints.values_mut() {
            if endpoint.ejection.is_some()
                || endpoint.last.total() == 0
                || !is_outlier(endpoint.last)
            {
                continue;
            }
            // gRFC A50: the maximum share stops ejections, but one endpoint may always be ejected.
            if ejected > 0 && ejected * 100 >= total * config.max_ejection_percent as usize {
                counts.above_maximum += 1;
                continue;
            }
            if !enforce() {
                counts.not_enforced += 1;
                continue;
            }
            counts.ejected += 1;
            endpoint.multiplier = endpoint.multiplier.saturating_add(1);
            endpoint.ejection = Some(Ejection {
                since: now,
                until: now + config.ejection_time(endpoint.multiplier),
                reason,
            });
            ejected += 1;
            changed = true;
        }
        changed
    }
}
