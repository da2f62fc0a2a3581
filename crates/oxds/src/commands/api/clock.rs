//! `oxds api clock` and `audit`: how far what is deprecated or experimental is.

use clap::ValueEnum;
use oxds_apicheck::audit;
use oxds_apicheck::clock::{self, Deprecation, Schedule};
use oxds_apicheck::generate::Reason;

use super::check::today;
use super::trees::TreeArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print how far what is deprecated is on its way out: since when, until when, what to use instead
#[derive(Debug, clap::Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Only this field, value, message or enum; with the runtime layer that lets its use pass
    #[arg(long, value_name = "NAME")]
    element: Option<String>,
}

/// Print what a release should look at: what is experimental or deprecated, what reaches two
/// versions of a package, what waits for the next major
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
}

#[derive(Debug, clap::Args)]
struct ScheduleArgs {
    /// What drives the clock
    #[arg(long, value_enum, default_value_t)]
    schedule: ScheduleName,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ScheduleName {
    /// Refused from the second release on, removed with the second major
    #[default]
    Policy,
    /// Removed with the third release
    Releases,
    /// Refused where annotated, never removed
    EnvoyToday,
}

impl ScheduleArgs {
    fn schedule(&self) -> Schedule {
        match self.schedule {
            ScheduleName::Policy => Schedule::Policy,
            ScheduleName::Releases => Schedule::Releases,
            ScheduleName::EnvoyToday => Schedule::EnvoyToday,
        }
    }
}

pub(super) fn clock(args: &ClockArgs) -> Result<Exit, Failure> {
    let tree = args.tree.load()?;
    let ledger = args.tree.ledger()?.unwrap_or_default();
    let mut all = clock::clock(&tree, &ledger, args.schedule.schedule(), today());
    let mut output = Output::new();
    let Some(name) = &args.element else {
        for one in &all {
            output.line(&line(one))?;
        }
        return Ok(Exit::Success);
    };
    all.retain(|one| one.element == *name);
    let Some(one) = all.first() else {
        return Err(
            Failure::usage(format_args!("nothing deprecated is called {name}"))
                .hint("`oxds api clock` lists all; that of a value is ENUM.VALUE"),
        );
    };
    output.line(&line(one))?;
    if let Some(layer) = one.layer() {
        output.write(&format!("\nTo let its use pass:\n\n{layer}"))?;
    }
    Ok(Exit::Success)
}

pub(super) fn audit(args: &AuditArgs) -> Result<Exit, Failure> {
    let tree = args.tree.load()?;
    let ledger = args.tree.ledger()?.unwrap_or_default();
    let audit = audit::audit(&tree, &ledger, args.schedule.schedule(), today());
    let experimental = audit.experimental.iter().map(|one| {
        let age = match &one.age {
            Some((since, made)) => format!("since {since}, {made} more releases"),
            None => "since when, the ledger does not say".to_owned(),
        };
        format!("{}: {} {}, {age}", one.location, one.element, one.maturity)
    });
    let two = audit.two_versions.iter();
    let two = two.map(|finding| format!("{} {}", finding.element, finding.message));
    let pending = audit.pending.iter().map(|(name, reason)| match reason {
        Reason::Deprecated => format!("{name} is deprecated"),
        Reason::DeprecatedMember(member) => format!("{name} has {member}, deprecated"),
        Reason::MovesTo(package) => format!("{name} moves to {package}"),
        Reason::RefersTo(other) => format!("{name} refers to {other}"),
    });
    let mut output = Output::new();
    let sections: [(&str, Vec<String>); 4] = [
        ("not stable", experimental.collect()),
        ("deprecated", audit.deprecated.iter().map(line).collect()),
        ("two versions of one", two.collect()),
        ("for the next major", pending.collect()),
    ];
    for (title, lines) in sections {
        output.line(&format!("{title}: {}", lines.len()))?;
        for line in lines {
            output.line(&format!("  {line}"))?;
        }
    }
    Ok(Exit::Success)
}

fn line(one: &Deprecation) -> String {
    let mut line = format!("{}: {} {}", one.location, one.element, one.phase);
    if let Some(since) = one.dates.since {
        line.push_str(&format!(", deprecated since {since}"));
    }
    if let Some(version) = &one.annotated {
        line.push_str(&format!(", deprecated at API {version}"));
    }
    if let Some(until) = one.until {
        line.push_str(&format!(", until {until}"));
    }
    match &one.replacement {
        Some(Ok(replacement)) => line.push_str(&format!("; use {replacement}")),
        Some(Err(why)) => line.push_str(&format!("; no replacement: {why}")),
        None => {}
    }
    line
}
