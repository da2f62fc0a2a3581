//! `oxds api stubs`: Rust skeletons of translations that need a decision.

use std::fs;
use std::path::PathBuf;

use oxds_types::translate::Major;

use super::translate::translator;
use super::trees::ImportArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Write Rust skeletons for the pairs of messages that a person must decide: every unchanged field is done, every
/// changed one is a `todo!`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Major of the results, such as v4alpha
    #[arg(long, value_name = "MAJOR")]
    to: Major,
    #[command(flatten)]
    tree: ImportArgs,
    /// File for the skeletons [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let (_, translator) = translator(&args.tree, args.to)?;
    let Some(skeleton) = translator.skeleton() else {
        crate::log::write("no message needs a decision\n");
        return Ok(Exit::Success);
    };
    match &args.output {
        Some(path) => fs::write(path, skeleton)
            .map_err(|error| Failure::negative(format_args!("{}: {error}", path.display())))?,
        None => Output::new().write(&skeleton)?,
    }
    Ok(Exit::Success)
}
