//! Weights of endpoints from the load that they report at the end of RPCs (gRFC A58).

use std::sync::Arc;

use oxds_client::load;
use oxds_core::lb::policy::{EndpointWeight, WeightedRoundRobinConfig};

use super::epoch::Epoch;
use crate::guard::{AttemptEnd, AttemptObserver};

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
            self.weight
                .handle_report(self.epoch.now(), &report, &self.config);
        }
    }
}
