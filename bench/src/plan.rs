//! Command-line arguments of a run.

/// Scenarios of a run, and their length.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plan {
    /// Scenario ids, such as `R-1`; all without one
    pub(crate) ids: Vec<String>,
    /// Short runs on small inputs: shows that every scenario runs; its figures mean nothing
    #[arg(long)]
    pub(crate) smoke: bool,
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
