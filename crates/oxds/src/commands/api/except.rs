//! Findings that do not count: exceptions, rules ignored by `buf.yaml`, a baseline.

use std::path::PathBuf;

use oxds_apicheck::baseline::Baseline;
use oxds_apicheck::config::{CONFIG_FILE, Config, with_exceptions};
use oxds_apicheck::finding::{Finding, Severity};
use oxds_apicheck::input::{self, Input};

use super::today::today;
use super::trees::{TreeArgs, failure};
use crate::exit::Failure;

/// Sources of exemptions on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct ExceptArgs {
    /// Report of an earlier run with --format json: its findings do not count
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

impl ExceptArgs {
    /// Exempts findings. `base` is the input that the tree was compared with.
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
            let earlier = || Some((base?, finding.old.as_ref()?));
            let (input, at) = now.or_else(earlier)?;
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

/// Creation of exceptions from findings.
#[derive(Debug, clap::Args)]
pub(super) struct AllowArgs {
    /// Add an exception for every error to oxds-api.yaml
    #[arg(long, requires_all = ["owner", "reason"])]
    pub(super) write_allow: bool,
    /// Owner of the exceptions
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Reason for the exceptions
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl AllowArgs {
    /// Adds the exceptions to `oxds-api.yaml`.
    pub(super) fn write(&self, tree: &TreeArgs, findings: &[Finding]) -> Result<(), Failure> {
        let folder = tree.folder().ok_or_else(|| {
            Failure::usage(
                "--write-allow: TREE must be a folder, because it writes oxds-api.yaml there",
            )
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
