//! `oxds man`: manual pages.

use std::fs;
use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds man /usr/local/share/man/man1
  oxds man . && man ./oxds-serve.1";

/// Write a manual page for each command into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Existing folder of the pages
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of `command`, the whole command line, and prints their paths.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<Exit, Failure> {
    command.build();
    let mut output = Output::new();
    for (name, page) in pages(&command) {
        let path = args.folder.join(name);
        write(&path, &page)?;
        output.line(&path.display().to_string())?;
    }
    Ok(Exit::Success)
}

fn write(path: &Path, page: &[u8]) -> Result<(), Failure> {
    fs::write(path, page)
        .map_err(|error| Failure::usage(format_args!("cannot write {}: {error}", path.display())))
}

/// Returns the names of the files and their pages: of the command, and of all commands below it.
fn pages(command: &clap::Command) -> Vec<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let name = man.get_filename();
    let mut page = Vec::new();
    // A `Vec` takes all that is written.
    let _ = man.render(&mut page);
    let mut all = vec![(name, page)];
    let shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    all.extend(shown.flat_map(pages));
    all
}
