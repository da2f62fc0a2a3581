//! `oxds diff`: the difference of two folders or commits.

use oxds_apicheck::input::Input;
use oxds_core::preview::Changes;
use serde::Serialize;

use super::Format;
use super::args::lifecycle::FolderFieldArgs;
use super::changes::{ChangeReport, JsonChange, Limit, totals};
use super::states::{Loaded, of_input};
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds diff ./config.old ./config
  oxds diff .git#ref=main,subdir=config ./config    # the changes of a branch
  oxds diff .git#tag=v1,subdir=config .git#tag=v2,subdir=config
  oxds diff ./blue ./green --format json | jq '.changes[].name'

A commit is written as for `oxds api check`: .git#branch=NAME, .git#tag=NAME or .git#ref=REVISION, with \
,subdir=DIR for a folder in it. Resources are compared by type, name and node group, wherever they are \
defined: moving one to another file does not count.

Items of lists are paired by their names, addresses, matches or other natural keys. Secrets are not shown, \
only that they differ.

Exit codes: 0 no difference; 1 differences; 2 a folder or commit cannot be read, or has errors.";

/// Print the differences of two folders or commits, field by field
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder or commit before
    #[arg(value_name = "A")]
    old: Input,
    /// Folder or commit after
    #[arg(value_name = "B")]
    new: Input,
    #[command(flatten)]
    limit: Limit,
    /// Format of the differences on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    fields: FolderFieldArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let old = valid(&args.old, of_input(&args.old, &args.fields)?)?;
    let new = valid(&args.new, of_input(&args.new, &args.fields)?)?;
    let changes = Changes::between(&old.state, &new.state);
    let report = ChangeReport {
        changes: &changes,
        limit: args.limit,
    };
    let mut output = Output::new();
    match args.format {
        Format::Text if changes.is_empty() => output.line("no difference")?,
        Format::Text => {
            let text = report.text(|_| None) + &report.table();
            output.write(&format!("{text}{}\n", totals(changes.counts())))?;
        }
        Format::Json => output.json(&JsonReport::of(&report))?,
    }
    Ok(if changes.is_empty() {
        Exit::Success
    } else {
        Exit::Negative
    })
}

/// Fails if the content of an input is not known completely: what differs would be wrong.
fn valid(input: &Input, loaded: Loaded) -> Result<Loaded, Failure> {
    let Some(first) = loaded.first_error() else {
        return Ok(loaded);
    };
    let more = match loaded.errors {
        0 | 1 => String::new(),
        errors => format!(" (and {} more errors)", errors - 1),
    };
    Err(Failure::usage(format_args!(
        "{input} has errors: {first}{more}"
    )))
}

/// The report as JSON. Later versions may add fields, and do not rename any.
#[derive(Debug, Serialize)]
struct JsonReport {
    added: usize,
    changed: usize,
    removed: usize,
    changes: Vec<JsonChange>,
    /// Number of changes that are left out.
    more_changes: usize,
}

impl JsonReport {
    fn of(report: &ChangeReport<'_>) -> Self {
        let counts = report.changes.counts();
        Self {
            added: counts.added,
            changed: counts.changed,
            removed: counts.removed,
            changes: report.json(|_| None),
            more_changes: report.more(),
        }
    }
}
