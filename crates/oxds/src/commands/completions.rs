//! `oxds completions`: completion scripts for shells.

use clap_complete::Shell;

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds completions bash > /usr/share/bash-completion/completions/oxds
  oxds completions zsh  > ~/.zfunc/_oxds
  oxds completions fish > ~/.config/fish/completions/oxds.fish";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for `command`, the whole command line.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "oxds", &mut script);
    Output::new().write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
