//! Weights of endpoints from the load that they report, at the end of RPCs or out of band (gRFC A58).

use std::sync::Arc;

use oxds_client::load::{self, OrcaLoadReport};
use oxds_core::lb::policy::{EndpointWeight, WeightedRoundRobinConfig};

use crate::attempt::{AttemptEnd, AttemptObserver};
use crate::epoch::Epoch;
use crate::subchannel::ReportSink;

/// Reads the ORCA reports of one endpoint.
#[derive(Debug)]
pub(super) struct WeightObserver {
    weight: Arc<EndpointWeight>,
    config: Arc<WeightedRoundRobinConfig>,
    epoch: Epoch,
}

impl WeightObserver {
    pub(super) fn new(
        weight: Arc<EndpointWeight>,
        config: Arc<WeightedRoundRobinConfig>,
        epoch: Epoch,
    ) -> Self {
        Self {
            weight,
            config,
            epoch,
        }
    }
}

impl AttemptObserver for WeightObserver {
    fn ended(&self, end: AttemptEnd<'_>) {
        if let Some(report) = end.trailers.and_then(load::orca) {
            self.report(&report);
        }
    }
}

impl ReportSink for WeightObserver {
    fn report(&self, report: &OrcaLoadReport) {
        let now = self.epoch.now();
        self.weight.handle_report(now, report, &self.config);
    }
}
