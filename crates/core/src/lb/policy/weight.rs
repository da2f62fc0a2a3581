//! Weights of endpoints, made of the load that they report (gRFC A58).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use oxds_types::orca::OrcaLoadReport;

use crate::time::Instant;

/// Configuration of `client_side_weighted_round_robin` (gRFC A58, A114).
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedRoundRobinConfig {
    /// Time of continuous reports before the weight of an endpoint counts.
    pub blackout_period: Duration,
    /// Time after the last report until the weight of an endpoint does not count any more.
    pub weight_expiration_period: Duration,
    /// Time between two computations of the weights; at least 100 ms.
    pub weight_update_period: Duration,
    /// Factor of the share of errors, which is added to the utilization; finite and not negative.
    pub error_utilization_penalty: f32,
    /// Metrics of which the largest is the utilization, for backends that do not report `application_utilization`.
    pub metric_names: Vec<Box<str>>,
    /// Time between reports out of band (gRFC A51); `None` if the reports of RPCs are used.
    pub out_of_band: Option<Duration>,
}

/// The penalty is a number, so equality is an equivalence.
impl Eq for WeightedRoundRobinConfig {}

impl Default for WeightedRoundRobinConfig {
    fn default() -> Self {
        // gRFC A58: the defaults of the fields.
        Self {
            blackout_period: Duration::from_secs(10),
            weight_expiration_period: Duration::from_secs(180),
            weight_update_period: Duration::from_secs(1),
            error_utilization_penalty: 1.0,
            metric_names: Vec::new(),
            out_of_band: None,
        }
    }
}

/// Weight of one endpoint. Reports change it at the end of RPCs, and the policy reads it when it makes a scheduler.
///
/// All fields are atomics, so that the end of an RPC takes no lock. Two reports at the same time may leave the weight
/// of one with the time of the other, which differ by nothing that matters.
#[derive(Debug)]
pub struct EndpointWeight {
    /// `f32` as bits; zero before the first report.
    weight: AtomicU32,
    /// Time of the last report, in nanoseconds since the epoch of the clock.
    last_update: AtomicU64,
    /// Time of the first report of an uninterrupted series.
    non_empty_since: AtomicU64,
}

/// Weight of an endpoint at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WeightState {
    /// The weight counts.
    Usable(f32),
    /// The endpoint has not reported yet, or the blackout period is not over.
    NotYetUsable,
    /// The last report is older than the expiration period.
    Stale,
}

/// Weights of one weighted round robin at an update, for metrics (gRFC A78).
#[derive(Debug, Clone, PartialEq)]
pub struct WeightReport {
    /// The first of its children that are ready, which shows its locality.
    pub child: usize,
    /// Whether it works on one locality only.
    pub is_of_locality: bool,
    /// Weight of each child that is ready, or the reason why it does not count.
    pub weights: Vec<WeightState>,
}

impl WeightReport {
    /// Returns whether too few weights are known, so that the update made a round robin.
    #[must_use]
    pub fn is_fallback(&self) -> bool {
        let usable = |state: &&WeightState| matches!(state, WeightState::Usable(_));
        self.weights.iter().filter(usable).count() < 2
    }
}

/// The time of an event that has not happened.
const NEVER: u64 = u64::MAX;

impl Default for EndpointWeight {
    fn default() -> Self {
        Self {
            weight: AtomicU32::new(0),
            last_update: AtomicU64::new(NEVER),
            non_empty_since: AtomicU64::new(NEVER),
        }
    }
}

impl EndpointWeight {
    /// Handles a report, of an RPC or out of band. A report without a usable weight changes nothing.
    pub fn handle_report(
        &self,
        now: Instant,
        report: &OrcaLoadReport,
        config: &WeightedRoundRobinConfig,
    ) {
        let Some(weight) = weight_of(report, config) else {
            return;
        };
        let now = nanos(now);
        // Relaxed: see the type's documentation.
        self.weight.store(weight.to_bits(), Ordering::Relaxed);
        self.last_update.store(now, Ordering::Relaxed);
        let _ =
            self.non_empty_since
                .compare_exchange(NEVER, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Starts the blackout period again: the endpoint has a new connection (gRFC A58).
    pub fn handle_connected(&self) {
        self.non_empty_since.store(NEVER, Ordering::Relaxed);
    }

    /// Returns the weight; zero if it is not known, too old or too young to count.
    #[must_use]
    pub fn get(&self, now: Instant, config: &WeightedRoundRobinConfig) -> f32 {
        match self.state(now, config) {
            WeightState::Usable(weight) => weight,
            WeightState::NotYetUsable | WeightState::Stale => 0.0,
        }
    }

    /// Returns the weight, or the reason why it does not count.
    #[must_use]
    pub fn state(&self, now: Instant, config: &WeightedRoundRobinConfig) -> WeightState {
        let since = |then: u64| match then {
            NEVER => None,
            then => Some(Duration::from_nanos(nanos(now).saturating_sub(then))),
        };
        // gRFC A58: an expired weight also starts the blackout period again.
        let Some(age) = since(self.last_update.load(Ordering::Relaxed)) else {
            return WeightState::NotYetUsable;
        };
        if age >= config.weight_expiration_period {
            self.non_empty_since.store(NEVER, Ordering::Relaxed);
            return WeightState::Stale;
        }
        let reporting = since(self.non_empty_since.load(Ordering::Relaxed));
        if config.blackout_period > Duration::ZERO
            && reporting.is_none_or(|time| time < config.blackout_period)
        {
            return WeightState::NotYetUsable;
        }
        WeightState::Usable(f32::from_bits(self.weight.load(Ordering::Relaxed)))
    }
}

fn nanos(instant: Instant) -> u64 {
    u64::try_from(instant.since_epoch().as_nanos()).unwrap_or(NEVER - 1)
}

/// Returns the weight that a report gives; `None` if its values give none. Reports come from outside, so any value can
/// be negative, infinite or not a number.
fn weight_of(report: &OrcaLoadReport, config: &WeightedRoundRobinConfig) -> Option<f32> {
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    let rate = Some(report.rps_fractional).filter(usable)?;
    let own = Some(report.application_utilization).filter(usable);
    // gRFC A114: the largest of the configured metrics, before the use of the CPU.
    let named = || {
        let names = config.metric_names.iter();
        let values = names.filter_map(|name| metric(report, name));
        values.filter(usable).max_by(f64::total_cmp)
    };
    let utilization = own
        .or_else(named)
        .or_else(|| Some(report.cpu_utilization).filter(usable))?;
    let errors = Some(report.eps).filter(usable).unwrap_or(0.0);
    let penalty = errors / rate * f64::from(config.error_utilization_penalty);
    let weight = (rate / (utilization + penalty)) as f32;
    (weight.is_finite() && weight > 0.0).then_some(weight)
}

/// Returns the value of a metric by its name, such as `named_metrics.queue` or `mem_utilization` (gRFC A114).
fn metric(report: &OrcaLoadReport, name: &str) -> Option<f64> {
    match name.split_once('.') {
        Some(("named_metrics", key)) => report.named_metrics.get(key).copied(),
        Some(("utilization", key)) => report.utilization.get(key).copied(),
        Some(_) => None,
        None => match name {
            "application_utilization" => Some(report.application_utilization),
            "cpu_utilization" => Some(report.cpu_utilization),
            "mem_utilization" => Some(report.mem_utilization),
            _ => None,
        },
    }
}
