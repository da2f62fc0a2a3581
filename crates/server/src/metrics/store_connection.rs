//! Metrics of the connection of a store to its source.

use std::fmt;
use std::time::Instant;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::encoding::{encode, signed};
use crate::store::{Connection, LaneState};

/// Encodes the metrics.
pub(crate) fn encode_all(
    encoder: &mut DescriptorEncoder<'_>,
    connection: &Connection,
) -> Result<(), fmt::Error> {
    let is_connected = ConstGauge::new(i64::from(connection.is_connected));
    let help = "Whether the server follows its store";
    encode(encoder, "store_connected", help, &is_connected)?;
    let away = connection.since.filter(|_| !connection.is_connected);
    let help = "Time for which the server has not followed its store; 0 if it does";
    encode(
        encoder,
        "store_disconnected_seconds",
        help,
        &ConstGauge::new(seconds(away)),
    )?;
    let failures = ConstCounter::new(connection.failures);
    let help = "Connections to the store that failed";
    encode(encoder, "store_failures", help, &failures)?;
    let reads = ConstCounter::new(connection.reads);
    let help = "Times that the whole store was read";
    encode(encoder, "store_reads", help, &reads)?;
    if let Some(member) = &connection.member {
        let gauge = ConstGauge::new(1_i64);
        let help = "Member of the store that the server uses, or tries to use";
        let gauge_type = gauge.metric_type();
        let mut family = encoder.encode_descriptor("store_member", help, None, gauge_type)?;
        gauge.encode(family.encode_family(&[("member", member.as_str())])?)?;
    }
    if let Some(space) = connection.space {
        let help = "Size of the database of the store, in bytes";
        let size = ConstGauge::new(signed(space.size));
        encode(encoder, "store_database_bytes", help, &size)?;
        let help = "Size at which the store rejects writes, in bytes; 0 without a limit";
        let quota = ConstGauge::new(signed(space.quota.unwrap_or_default()));
        encode(encoder, "store_database_quota_bytes", help, &quota)?;
    }
    lanes(encoder, &connection.lanes)
}

/// Encodes the metrics of each lane.
fn lanes(encoder: &mut DescriptorEncoder<'_>, lanes: &[LaneState]) -> Result<(), fmt::Error> {
    type Value = fn(&LaneState) -> f64;
    let gauges: [(&str, &str, Value); 5] = [
        ("store_seq", "Number of the served publish", |lane| {
            number(lane.seq)
        }),
        (
            "store_lag",
            "Publishes of the store that are not served",
            |lane| number(lane.lag),
        ),
        (
            "store_lag_seconds",
            "Time for which there have been such publishes; 0 if all are served",
            |lane| seconds(lane.lag_since),
        ),
        (
            "store_held",
            "Whether publishes are held back: the store went back, or has a resource twice",
            |lane| f64::from(u8::from(lane.is_held)),
        ),
        (
            "store_diverged_seconds",
            "Time for which the store has not had the digest of its head; 0 if it has",
            |lane| seconds(lane.diverged_since),
        ),
    ];
    for (name, help, value) in gauges {
        let gauge_type = ConstGauge::new(0.0).metric_type();
        let mut family = encoder.encode_descriptor(name, help, None, gauge_type)?;
        for lane in lanes {
            let gauge = ConstGauge::new(value(lane));
            gauge.encode(family.encode_family(&[("lane", lane.lane.as_str())])?)?;
        }
    }
    Ok(())
}

fn seconds(since: Option<Instant>) -> f64 {
    since.map_or(0.0, |since| since.elapsed().as_secs_f64())
}

/// Returns a number, exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "numbers of publishes are small")]
fn number(value: u64) -> f64 {
    signed(value) as f64
}
