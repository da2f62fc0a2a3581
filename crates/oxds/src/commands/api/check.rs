//! `oxds api check`, `breaking`, `lint` and `odr`.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use oxds_apicheck::check::{self, Settings};
use oxds_apicheck::exception::{CONFIG_FILE, with_exceptions};
use oxds_apicheck::finding::{Finding, Severity};
use oxds_apicheck::model::Tree;
use oxds_apicheck::report::Report;
use oxds_apicheck::rules;

use super::report::ReportArgs;
use super::trees::{AgainstArgs, Pair, RuleArgs, TreeArgs};
use crate::exit::{Exit, Failure};

/// Everything: what a change breaks, versions that must follow, frozen packages
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    against: AgainstArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    allow: AllowArgs,
}

/// What a change breaks: wire, JSON, generated code, validation
#[derive(Debug, clap::Args)]
pub(super) struct BreakingArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    against: AgainstArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is wrong with a tree as it is: names, paths, dependencies, one definition of each package
#[derive(Debug, clap::Args)]
pub(super) struct LintArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Exceptions made from what was found.
#[derive(Debug, clap::Args)]
struct AllowArgs {
    /// Write an exception for every error into oxds-api.yaml
    #[arg(long, requires_all = ["owner", "reason"])]
    write_allow: bool,
    /// Who answers for the exceptions
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Why they are right
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    let pair = args.tree.load_pair(&args.against)?;
    let config = args.tree.config()?;
    let settings = args.rules.settings(&config);
    let locks = (pair.old_lock.as_ref(), pair.new_lock.as_ref());
    let mut findings = check::check(&pair.old, &pair.new, locks, &settings);
    if let Some(ledger) = args.tree.ledger()? {
        let trees = (&pair.old, &pair.new);
        check::by_ledger(trees, &mut findings, &settings, &ledger, today());
    }
    config.except(&mut findings, today());
    findings.extend(config.left_over(&findings, today()));
    if args.allow.write_allow {
        args.allow.write(&args.tree, &findings)?;
    }
    args.report.print(&report(findings, pair))
}

pub(super) fn breaking(args: &BreakingArgs) -> Result<Exit, Failure> {
    let pair = args.tree.load_pair(&args.against)?;
    let config = args.tree.config()?;
    let settings = args.rules.settings(&config);
    let mut findings = check::breaking(&pair.old, &pair.new, &settings);
    config.except(&mut findings, today());
    args.report.print(&report(findings, pair))
}

/// All rules about one tree.
pub(super) fn lint(args: &LintArgs) -> Result<Exit, Failure> {
    let ledger = args.tree.ledger()?;
    one_tree(args, |tree, settings| {
        let mut findings = rules::lint(tree, settings.profile, &settings.policy);
        if let Some(ledger) = ledger {
            let late = rules::lifecycle(tree, settings.profile, &ledger, today());
            findings.extend(late);
        }
        findings
    })
}

/// The rule that no package reaches two versions of another (V-12).
pub(super) fn odr(args: &LintArgs) -> Result<Exit, Failure> {
    one_tree(args, |tree, settings| rules::odr(tree, settings.profile))
}

fn one_tree(
    args: &LintArgs,
    find: impl FnOnce(&Tree, &Settings) -> Vec<Finding>,
) -> Result<Exit, Failure> {
    let tree = args.tree.load()?;
    let config = args.tree.config()?;
    let mut findings = find(&tree, &args.rules.settings(&config));
    config.except(&mut findings, today());
    args.report
        .print(&Report::new(findings, None, Some(&tree), None))
}

fn report(findings: Vec<Finding>, pair: Pair) -> Report {
    Report::new(findings, Some(&pair.old), Some(&pair.new), Some(pair.words))
}

impl AllowArgs {
    fn write(&self, tree: &TreeArgs, findings: &[Finding]) -> Result<(), Failure> {
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

/// The date by which exceptions expire and clocks tick, the same everywhere.
pub(super) fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}
