//! A server and the swarm of its clients.

use std::time::{Duration, Instant};

use super::metrics::Counts;
use super::swarm::{Manner, Swarm};
use crate::keys::Keys;
use crate::memory::Footprint;
use crate::program::program;
use crate::roles::{Holding, Part, Role};

/// Servers of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contestant {
    Oxds,
    /// The same server with an allocator that counts, which costs time.
    Counted,
    /// go-control-plane's snapshot cache.
    Snapshot,
    /// go-control-plane's linear cache.
    Linear,
}

impl Contestant {
    pub(super) const ALL: [Self; 3] = [Self::Oxds, Self::Snapshot, Self::Linear];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Oxds => "oxds",
            Self::Counted => "oxds, counted",
            Self::Snapshot => "gcp snapshot",
            Self::Linear => "gcp linear",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Oxds | Self::Counted)
    }

    /// Starts a server with this many resources.
    pub(super) fn start(self, holding: Holding, count: usize) -> Result<Part, String> {
        self.start_grouped(holding, count, 0)
    }

    /// Memory of a server with almost no resources.
    pub(super) fn empty(self) -> Result<Footprint, String> {
        self.start(Holding::Clusters, 1)?.footprint()
    }

    /// The same for this many node groups, each with a few resources of its own.
    pub(super) fn start_grouped(
        self,
        holding: Holding,
        count: usize,
        groups: usize,
    ) -> Result<Part, String> {
        let role = Role::Push {
            holding,
            count,
            groups,
            keys: None,
        };
        let cache = match self {
            Self::Oxds => return Part::start(&role),
            Self::Counted => return Part::start_counted(&role),
            Self::Snapshot => "snapshot",
            Self::Linear => "linear",
        };
        let peer = program("OXDS_BENCH_GO_CONTROL_PLANE")?;
        let arguments = [
            format!("-cache={cache}"),
            format!("-holding={}", holding.name()),
            format!("-count={count}"),
            format!("-groups={groups}"),
        ];
        Part::start_program(&peer, &arguments)
    }
}

/// Address of a server's discovery services.
pub(super) fn address(server: &Part) -> &str {
    server.hello().split(' ').next().unwrap_or_default()
}

/// Both sides of one measurement.
pub(super) struct Rig {
    pub(super) server: Part,
    pub(super) swarm: Swarm,
    /// The server reads its certificates from files.
    _keys: Option<Keys>,
}

/// Result of a series of changes.
#[derive(Debug)]
pub(super) struct Pushes {
    /// From the order to change until the last client had it; sorted.
    pub(super) last: Vec<Duration>,
    pub(super) cpu_micros_per_change: f64,
    /// Counters of our server; `None` for peers.
    pub(super) counts: Option<Counts>,
}

impl Rig {
    pub(super) fn start(
        contestant: Contestant,
        holding: Holding,
        count: usize,
        manner: Manner,
    ) -> Result<Self, String> {
        let server = contestant.start(holding, count)?;
        let swarm = Swarm::new(address(&server), manner)?;
        Ok(Self {
            server,
            swarm,
            _keys: None,
        })
    }

    /// Ours over mTLS.
    pub(super) fn start_over_tls(
        holding: Holding,
        count: usize,
        manner: Manner,
    ) -> Result<Self, String> {
        let keys = Keys::new()?;
        let server = Part::start(&Role::Push {
            holding,
            count,
            groups: 0,
            keys: Some(keys.folder.path().to_owned()),
        })?;
        let tls = Some(keys.connector.clone());
        let swarm = Swarm::new(address(&server), Manner { tls, ..manner })?;
        Ok(Self {
            server,
            swarm,
            _keys: Some(keys),
        })
    }

    /// Counters of our server; `None` for peers.
    pub(super) fn counts(&self) -> Result<Option<Counts>, String> {
        let metrics = self.server.hello().split(' ').nth(1);
        metrics.map(Counts::read).transpose()
    }

    /// Changes a resource, and waits until `recipients` clients have it.
    pub(super) async fn change(&mut self, recipients: usize) -> Result<Duration, String> {
        let before = self.swarm.mark();
        let start = Instant::now();
        self.server.send_line("change")?;
        let goal = before.messages + recipients as u64;
        let last = self.swarm.until(goal, |counted| counted.messages).await?;
        Ok(last.duration_since(start))
    }

    /// Repeats changes up to `at_most` times or until `enough` time has passed; each change must reach exactly
    /// `recipients` clients.
    pub(super) async fn pushes(
        &mut self,
        at_most: usize,
        enough: Duration,
        recipients: usize,
    ) -> Result<Pushes, String> {
        // The first changes pay for caches and allocations that stay.
        for _ in 0..(at_most / 10).clamp(1, 5) {
            self.change(recipients).await?;
        }
        let (before, counts) = (self.swarm.mark(), self.counts()?);
        let cpu_before = self.server.cpu_micros()?;
        let mut last = Vec::with_capacity(at_most);
        let end = Instant::now() + enough;
        while last.len() < at_most && (last.is_empty() || Instant::now() < end) {
            last.push(self.change(recipients).await?);
        }
        let cpu = self.server.cpu_micros()? - cpu_before;
        let messages = self.swarm.mark().messages - before.messages;
        if messages != (last.len() * recipients) as u64 {
            return Err(format!(
                "{messages} responses to {} changes for {recipients}",
                last.len()
            ));
        }
        let counts = self
            .counts()?
            .zip(counts)
            .map(|(after, before)| after - before);
        last.sort_unstable();
        Ok(Pushes {
            cpu_micros_per_change: cpu as f64 / last.len() as f64,
            last,
            counts,
        })
    }
}

/// Runs a measurement on a runtime of one thread.
pub(crate) fn wait<T>(measurement: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(measurement)
}
