//! Command-line arguments of a run, and the size of its scenarios.

use std::time::Duration;

/// Scenarios of a run, and their length.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plan {
    /// Scenario ids, such as `R-1`; all without one
    pub(crate) ids: Vec<String>,
    /// Short runs on small inputs: shows that every scenario runs; its figures mean nothing
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Time that etcd is away in GB-16; the target is for 600 s
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub(crate) away_seconds: u64,
}

impl Plan {
    pub(crate) fn wants(&self, id: &str) -> bool {
        self.ids.is_empty()
            || self
                .ids
                .iter()
                .any(|wanted| wanted.eq_ignore_ascii_case(id))
    }
}

/// Numbers of a scenario; 0 for those that it does not have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Resources or endpoints, in increasing order if the scenario compares them.
    pub(crate) resources: &'static [usize],
    pub(crate) clients: usize,
    /// Changes, picks or handshakes of one round.
    pub(crate) steps: usize,
    pub(crate) rounds: usize,
    /// RPCs per second.
    pub(crate) rate: u32,
    pub(crate) length: Duration,
}

impl Size {
    /// Has no numbers.
    pub(crate) const NONE: Self = Self {
        resources: &[],
        clients: 0,
        steps: 0,
        rounds: 0,
        rate: 0,
        length: Duration::ZERO,
    };

    pub(crate) const fn resources(self, resources: &'static [usize]) -> Self {
        Self { resources, ..self }
    }

    pub(crate) const fn clients(self, clients: usize) -> Self {
        Self { clients, ..self }
    }

    pub(crate) const fn steps(self, steps: usize) -> Self {
        Self { steps, ..self }
    }

    pub(crate) const fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    pub(crate) const fn rate(self, rate: u32) -> Self {
        Self { rate, ..self }
    }

    pub(crate) const fn millis(self, millis: u64) -> Self {
        let length = Duration::from_millis(millis);
        Self { length, ..self }
    }

    pub(crate) const fn seconds(self, seconds: u64) -> Self {
        let length = Duration::from_secs(seconds);
        Self { length, ..self }
    }

    /// The fewest resources.
    pub(crate) fn few(self) -> usize {
        self.resources.first().copied().unwrap_or_default()
    }

    /// The most resources.
    pub(crate) fn many(self) -> usize {
        self.resources.last().copied().unwrap_or_default()
    }
}
