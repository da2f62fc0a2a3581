//! Metrics that are read from the cache and the store at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use oxds_types::ResourceType;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::context::Context;
use crate::metrics::encoding::{encode, signed};
use crate::metrics::store_connection;
use crate::not_representable;
use crate::store::{Health, Stale};

/// The sources of the metrics.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    /// Log lines that the program could not write.
    pub(crate) lost_log_lines: Arc<AtomicU64>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        self.counters(&mut encoder)?;
        self.gauges(&mut encoder)?;
        self.runtime(&mut encoder)?;
        self.state(&mut encoder)?;
        self.connection(&mut encoder)?;
        self.resource_types(&mut encoder)
    }
}

impl Scrape {
    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (cache, health) = (&self.context.cache, &self.health);
        let counts = cache.snapshot().counters().read();
        let counters = [
            ("wakeups", "Sessions woken by changes", cache.wakeups()),
            ("encodes", "Shared response bodies encoded", counts.encodes),
            ("hashes", "Resources hashed by change sets", counts.hashes),
            (
                "store_updates",
                "Change sets taken from the store",
                health.updates(),
            ),
            (
                "log_lines_lost",
                "Log lines that could not be written, or were not read in time",
                self.lost_log_lines.load(Relaxed),
            ),
        ];
        for (name, help, value) in counters {
            encode(encoder, name, help, &ConstCounter::new(value))?;
        }
        Ok(())
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Context {
            server,
            cache,
            clients,
            rollback,
            ..
        } = &*self.context;
        let findings = self.health.counts();
        let gauges = [
            (
                "poll_clients",
                "Poll clients (Fetch and REST)",
                clients.polls.len(server.clock.now()) as u64,
            ),
            (
                "streams_behind",
                "Streams whose clients have not answered the latest change that concerns them",
                cache.convergence().pending_sessions() as u64,
            ),
            (
                "client_bytes",
                "Estimated bytes that clients make the server keep",
                server.budget.used() as u64,
            ),
            (
                "rolled_back",
                "Resources that are rolled back at present",
                rollback.rolled_back().len() as u64,
            ),
            (
                "snapshot_revision",
                "Revision of the served snapshot",
                cache.snapshot().revision().get(),
            ),
            (
                "store_errors",
                "Findings that keep store content from being served",
                findings.errors as u64,
            ),
            (
                "store_warnings",
                "Findings that are only warnings",
                findings.warnings as u64,
            ),
        ];
        for (name, help, value) in gauges {
            encode(encoder, name, help, &ConstGauge::new(signed(value)))?;
        }
        let seconds = ConstGauge::new(self.health.load_time().as_secs_f64());
        encode(
            encoder,
            "store_load_seconds",
            "Time the latest update took",
            &seconds,
        )
    }

    /// Encodes how old the served state is, and how far it is saved.
    fn state(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stale = self.health.stale();
        let help =
            "Whether the served state is that of an earlier process, because the store is away";
        let is_stale = ConstGauge::new(i64::from(stale.is_some()));
        encode(encoder, "store_stale", help, &is_stale)?;
        let age = stale.map(Stale::age).unwrap_or_default();
        let help = "Age of such a state; 0 if the served state is current";
        let age = ConstGauge::new(age.as_secs_f64());
        encode(encoder, "store_stale_seconds", help, &age)?;
        let Some(state) = self.health.state() else {
            return Ok(());
        };
        let counters = [
            ("state_saves", "Saves of the state on disk", state.saves()),
            ("state_saved_bytes", "Bytes written by them", state.bytes()),
            ("state_errors", "Saves that failed", state.errors()),
        ];
        for (name, help, value) in counters {
            encode(encoder, name, help, &ConstCounter::new(value))?;
        }
        let help = "Time for which applied changes have not been saved; 0 if all are";
        let unsaved = ConstGauge::new(state.unsaved_for().as_secs_f64());
        encode(encoder, "state_unsaved_seconds", help, &unsaved)
    }

    /// Encodes how the store is connected to its source, if it has a connection.
    fn connection(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let connection = self.health.connection().clone();
        match connection {
            Some(connection) => store_connection::encode_all(encoder, &connection),
            None => Ok(()),
        }
    }

    /// Encodes the numbers of Envoy's `runtime.*` statistics.
    fn runtime(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.context.server.runtime.counts();
        let counters = [
            (
                "runtime_load_success",
                "Loads of a runtime layer that succeeded",
                counts.load_success,
            ),
            (
                "runtime_load_error",
                "Loads of a runtime layer that failed, so that its last values stayed",
                counts.load_error,
            ),
        ];
        for (name, help, value) in counters {
            encode(encoder, name, help, &ConstCounter::new(value))?;
        }
        let gauges = [
            ("runtime_num_keys", "Runtime keys", counts.num_keys),
            ("runtime_num_layers", "Runtime layers", counts.num_layers),
            (
                "runtime_admin_overrides_active",
                "Whether requests to /runtime_modify override keys",
                usize::from(counts.admin_overrides > 0),
            ),
        ];
        for (name, help, value) in gauges {
            encode(encoder, name, help, &ConstGauge::new(signed(value as u64)))?;
        }
        Ok(())
    }

    fn resource_types(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = self.context.cache.snapshot();
        let served = snapshot.types().map(|(resource_type, published)| {
            let count = published.collection().len() as u64;
            (resource_type, count)
        });
        encode_by_type(encoder, "resources", "Resources served", served)?;

        let not_representable = not_representable::all(&self.context.cache);
        let mut numbers: BTreeMap<&ResourceType, u64> = snapshot
            .types()
            .map(|(resource_type, _)| (resource_type, 0))
            .collect();
        for resource in &not_representable {
            *numbers.entry(&resource.resource_type).or_default() += 1;
        }
        let help = "Resources that clients of API v2 do not get, because v2 cannot express them";
        encode_by_type(encoder, "not_representable", help, numbers)
    }
}

/// Encodes a gauge with one number per resource type.
fn encode_by_type<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    numbers: impl IntoIterator<Item = (&'a ResourceType, u64)>,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(0_i64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, gauge)?;
    for (resource_type, number) in numbers {
        let labels = [("resource_type", resource_type.to_string())];
        ConstGauge::new(signed(number)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
