//! The commands, one module each: `Args` is its part of the command line, `run` does it.

pub(crate) mod bootstrap;
pub(crate) mod completions;
pub(crate) mod serve;
pub(crate) mod validate;

use clap::ValueEnum;
use oxds_server::dir;

use crate::exit::Failure;
use crate::progress;

/// The form of results on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON document, for machines
    Json,
}

/// How to read a folder.
fn dir_options(allow_unknown_fields: bool, strict: bool) -> dir::Options {
    let mut options = dir::Options::default();
    options.codec.allow_unknown_fields = allow_unknown_fields;
    options.strict = strict;
    options.progress = progress::on_terminal();
    options
}

/// A folder that cannot be read at all.
fn unreadable(error: &dir::Error) -> Failure {
    Failure::usage(error)
}

/// A runtime for the commands that talk to the network.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::negative(format_args!("cannot start threads: {error}")))
}
