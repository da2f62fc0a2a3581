//! `oxds api check`, `breaking`, `lint` and `odr`.

use oxds_apicheck::check::{self, Settings};
use oxds_apicheck::finding::Finding;
use oxds_apicheck::input;
use oxds_apicheck::ledger::Ledger;
use oxds_apicheck::model::Tree;
use oxds_apicheck::report::Report;
use oxds_apicheck::rules;

use super::except::{AllowArgs, ExceptArgs, WireArgs, left_over};
use super::report::ReportArgs;
use super::trees::{AgainstArgs, Pair, RuleArgs, TreeArgs, failure};
use crate::commands::date::today;
use crate::exit::{Exit, Failure};
use crate::progress;

/// Check a change completely: breaking changes, file versions, frozen packages, new lint findings
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    wire: WireArgs,
    #[command(flatten)]
    allow: AllowArgs,
}

/// Find breaking changes: wire format, JSON, generated code, validation
#[derive(Debug, clap::Args)]
pub(super) struct BreakingArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    wire: WireArgs,
}

/// Check a tree on its own: names, paths, dependencies, one version of each package
#[derive(Debug, clap::Args)]
pub(super) struct LintArgs {
    /// Only files that changed, compared with --against or the merge base with the default branch
    #[arg(long)]
    changed_only: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// Tree, base, rules, exceptions and report of a check.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    against: AgainstArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    except: ExceptArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn check(
    CheckArgs {
        common: args,
        wire,
        allow,
    }: &CheckArgs,
) -> Result<Exit, Failure> {
    let pair = args.tree.load_pair(&args.against)?;
    let config = args.tree.config()?;
    let settings = args.rules.settings(&config);
    let locks = (pair.old_lock.as_ref(), pair.new_lock.as_ref());
    let mut findings = progress::while_working("checking", || {
        check::check(&pair.old, &pair.new, locks, &settings)
    });
    let ledger = args.tree.ledger()?;
    if let Some(ledger) = &ledger {
        let trees = (&pair.old, &pair.new);
        check::by_ledger(trees, &mut findings, &settings, ledger, today());
    }
    exempt_young(ledger.as_ref(), &args.tree, &pair, &mut findings)?;
    let trees = (&args.tree, Some(&pair.base));
    args.except.apply(trees, &config, &mut findings)?;
    wire.apply(&mut findings);
    findings.extend(left_over(&config, &findings, &pair.base, ledger.as_ref()));
    if allow.write_allow {
        allow.write(&args.tree, &findings)?;
    }
    args.report.print(&report(findings, pair))
}

pub(super) fn breaking(
    BreakingArgs { common: args, wire }: &BreakingArgs,
) -> Result<Exit, Failure> {
    let pair = args.tree.load_pair(&args.against)?;
    let config = args.tree.config()?;
    let settings = args.rules.settings(&config);
    let mut findings = check::breaking(&pair.old, &pair.new, &settings);
    exempt_young(
        args.tree.ledger()?.as_ref(),
        &args.tree,
        &pair,
        &mut findings,
    )?;
    let trees = (&args.tree, Some(&pair.base));
    args.except.apply(trees, &config, &mut findings)?;
    wire.apply(&mut findings);
    args.report.print(&report(findings, pair))
}

/// Runs all rules about one tree.
pub(super) fn lint(args: &LintArgs) -> Result<Exit, Failure> {
    let ledger = args.common.tree.ledger()?;
    let lock = args.common.tree.lock()?;
    one_tree(args, |tree, settings| {
        let lock = lock.as_ref();
        let mut findings = rules::lint(tree, settings.profile, &settings.policy, lock);
        if let Some(ledger) = ledger {
            let late = rules::lifecycle(tree, settings.profile, &ledger, today());
            findings.extend(late);
        }
        findings
    })
}

/// Runs the rule that a package depends on one version of each other package (V-12).
pub(super) fn odr(args: &LintArgs) -> Result<Exit, Failure> {
    one_tree(args, |tree, settings| rules::odr(tree, settings.profile))
}

fn one_tree(
    LintArgs {
        changed_only,
        common: args,
    }: &LintArgs,
    find: impl FnOnce(&Tree, &Settings) -> Vec<Finding>,
) -> Result<Exit, Failure> {
    let config = args.tree.config()?;
    let settings = args.rules.settings(&config);
    if !changed_only {
        let tree = args.tree.load()?;
        let mut findings = find(&tree, &settings);
        args.except
            .apply((&args.tree, None), &config, &mut findings)?;
        return args
            .report
            .print(&Report::new(findings, None, Some(&tree), None));
    }
    let pair = args.tree.load_pair(&args.against)?;
    let mut findings = find(&pair.new, &settings);
    let changed = check::changed_files(&pair.old, &pair.new);
    findings.retain(|finding| {
        let at = finding.new.as_ref();
        at.is_none_or(|at| changed.contains(&at.path))
    });
    args.except
        .apply((&args.tree, None), &config, &mut findings)?;
    args.report.print(&report(findings, pair))
}

/// Exempts changes of young, unreleased elements (V-35), if the base has a history.
fn exempt_young(
    ledger: Option<&Ledger>,
    tree: &TreeArgs,
    pair: &Pair,
    findings: &mut [Finding],
) -> Result<(), Failure> {
    let counts = findings.iter().any(|finding| finding.exempt.is_none());
    let day = ledger.and_then(|ledger| rules::youth_cutoff(ledger, today()));
    let Some(day) = day.filter(|_| counts) else {
        return Ok(());
    };
    let then = input::as_of(&pair.base, day).map_err(|error| failure(error.into()))?;
    if let Some(then) = then {
        rules::exempt_young(&tree.load_like(&then)?, findings);
    }
    Ok(())
}

fn report(findings: Vec<Finding>, pair: Pair) -> Report {
    Report::new(
        findings,
        Some(&pair.old),
        Some(&pair.new),
        Some(pair.description),
    )
}
