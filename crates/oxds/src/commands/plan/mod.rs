//! `oxds plan`: what would change if a folder replaced the present configuration.

mod against;
mod args;
mod clients;
mod json;
mod outcome;
mod text;

pub(crate) use args::Args;

use self::against::Against;
use self::outcome::Plan;
use super::Format;
use super::states::read_folder;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let exit = plan(args);
    if args.detailed_exitcode {
        exit.map_err(|mut failure| {
            failure.exit = Exit::Negative;
            failure
        })
    } else {
        exit
    }
}

fn plan(args: &Args) -> Result<Exit, Failure> {
    let loaded = read_folder(&args.dir, &args.fields)?;
    let mut output = Output::new();
    if loaded.errors > 0 {
        // What an invalid file would replace is unknown, so a plan would be wrong.
        match args.format {
            Format::Text => output.write(&text::invalid(&loaded))?,
            Format::Json => output.json(&json::invalid(&loaded.findings))?,
        }
        return Ok(Exit::Negative);
    }
    let found = Against::find(args, loaded.state)?;
    let plan = Plan::new(found, loaded.findings);
    match args.format {
        Format::Text => output.write(&text::plan(&plan, args.limit))?,
        Format::Json => output.json(&json::plan(&plan, args.limit))?,
    }
    let has_warnings = !plan.dangers.is_empty() || !plan.findings.is_empty();
    Ok(
        match (args.strict && has_warnings, args.detailed_exitcode) {
            (true, _) => Exit::Negative,
            (false, true) if !plan.changes.is_empty() => Exit::Changes,
            _ => Exit::Success,
        },
    )
}
