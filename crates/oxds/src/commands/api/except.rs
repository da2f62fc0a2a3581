//! Findings that do not count: exceptions, rules ignored by `buf.yaml`, a baseline.

use std::path::PathBuf;

use oxds_apicheck::baseline::Baseline;
use oxds_apicheck::config::{CONFIG_FILE, Config, Earlier, with_exceptions};
use oxds_apicheck::finding::{Finding, Severity};
use oxds_apicheck::input::{self, Input};
use oxds_apicheck::ledger::Ledger;

use super::trees::{TreeArgs, config_of, failure};
use crate::commands::date::today;
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
            let now = || Some((tree.input(), finding.new.as_ref()?));
            let earlier = || Some((base?, finding.old.as_ref()?));
            // A removed element is shown at another one, whose file says nothing about it.
            let (input, at) = if finding.is_removal() {
                earlier().or_else(now)
            } else {
                now().or_else(earlier)
            }?;
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

/// Restriction to the wire format.
#[derive(Debug, clap::Args)]
pub(super) struct WireArgs {
    /// Count only changes that break the wire format; other findings are exempt
    #[arg(long)]
    wire_only: bool,
}

impl WireArgs {
    /// Exempts the findings that do not concern the wire format, if asked for.
    pub(super) fn apply(&self, findings: &mut [Finding]) {
        let others = findings
            .iter_mut()
            .filter(|finding| finding.exempt.is_none() && !finding.rule.is_wire());
        for finding in others.filter(|_| self.wire_only) {
            finding.exempt = Some("not wire format".to_owned());
        }
    }
}

/// Returns the findings about exceptions that are unused or expired. `findings` must be complete.
pub(super) fn left_over(
    config: &Config,
    findings: &[Finding],
    base: &Input,
    ledger: Option<&Ledger>,
) -> Vec<Finding> {
    let merged = config_of(base);
    let release = ledger.and_then(|ledger| ledger.last_release(today()));
    let at_release = release.and_then(|release| {
        let then = input::as_of(base, release.date).ok()??;
        Some((&*release.version, config_of(&then)?))
    });
    let mut earlier = Earlier::default();
    earlier.base = merged.as_ref();
    earlier.release = at_release.as_ref().map(|(name, config)| (*name, config));
    config.left_over(findings, today(), earlier)
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
