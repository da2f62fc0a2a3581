//! Command-line arguments of a run.

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
