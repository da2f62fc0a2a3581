//! What of the findings does not count: exceptions, what `buf.yaml` leaves out, a baseline.

use std::path::PathBuf;

use oxds_apicheck::baseline::Baseline;
use oxds_apicheck::exception::{CONFIG_FILE, Config, with_exceptions};
use oxds_apicheck::finding::{Finding, Severity};
use oxds_apicheck::input::{self, Input};

use super::check::today;
use super::trees::{TreeArgs, failure};
use crate::exit::Failure;

/// What does not count.
#[derive(Debug, clap::Args)]
pub(super) struct ExceptArgs {
    /// A report made earlier with --format json: what it has does not count
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

impl ExceptArgs {
    /// Takes findings out of account. `base` is what the tree was compared with.
    pub(super) fn apply(
        &self,
        (tree, base): (&TreeArgs, Option<&Input>),
        config: &Config,
        findings: &mut [Finding],
    ) -> Result<(), Failure> {
        config.except(findings, today());
        let ignores = input::buf_ignores(tree.input()).map_err(|error| failure(error.into()))?;
        ignores.except(findings, |finding| {
            let now = finding.new.as_ref().map(|at| (tree.input(), at));
            let was = || Some((base?, finding.old.as_ref()?));
            let (input, at) = now.or_else(was)?;
            input.within(&at.path).map(str::to_owned)
        });
        if let Some(path) = &self.baseline {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::usage(format_args!("--baseline {}: {error}", path.display()))
            })?;
            let baseline = Baseline::parse(path, &text).map_err(Failure::usage)?;
            baseline.except(findings);
        }
        Ok(())
    }
}

/// Exceptions made from what was found.
#[derive(Debug, clap::Args)]
pub(super) struct AllowArgs {
    /// Write an exception for every error into oxds-api.yaml
    #[arg(long, requires_all = ["owner", "reason"])]
    pub(super) write_allow: bool,
    /// Who answers for the exceptions
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Why they are right
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl AllowArgs {
    /// Writes them.
    pub(super) fn write(&self, tree: &TreeArgs, findings: &[Finding]) -> Result<(), Failure> {
        let folder = tree.folder().ok_or_else(|| {
            Failure::usage("--write-allow needs a folder to write oxds-api.yaml into")
        })?;
        let path = folder.join(CONFIG_FILE);
        let wrong =
            |error: std::io::Error| Failure::usage(format_args!("{}: {error}", path.display()));
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(wrong)?,
        };
        let errors: Vec<_> = findings
            .iter()
            .filter(|finding| finding.exempt.is_none() && finding.severity == Severity::Error)
            .collect();
        let (owner, reason) = (self.owner.as_deref(), self.reason.as_deref());
        let text = with_exceptions(
            &text,
            &errors,
            owner.unwrap_or_default(),
            reason.unwrap_or_default(),
        );
        std::fs::write(&path, text).map_err(wrong)
    }
}
