//! Encoding of metrics that are read at a scrape.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// Encodes a metric without labels.
pub(crate) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// Returns a number as the value of a gauge.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
