//! The commands, one module each: `Args` is its part of the command line, `run` carries it out.

pub(crate) mod api;
mod args;
pub(crate) mod bootstrap;
pub(crate) mod call;
mod changes;
mod clients;
pub(crate) mod completions;
mod control_plane;
pub(crate) mod csds;
mod date;
pub(crate) mod demo;
pub(crate) mod deprecations;
pub(crate) mod diff;
mod fetch;
mod files;
mod followed_policy;
pub(crate) mod get;
mod grpc_rules;
pub(crate) mod man;
mod nodes;
pub(crate) mod plan;
mod print;
#[cfg(feature = "etcd")]
pub(crate) mod publish;
#[cfg(feature = "etcd")]
mod published;
#[cfg(feature = "etcd")]
mod replicas;
pub(crate) mod route;
pub(crate) mod runtime;
pub(crate) mod serve;
mod serve_store;
mod state;
mod states;
pub(crate) mod status;
mod store_status;
mod subscription;
pub(crate) mod validate;
pub(crate) mod wait;
pub(crate) mod watch;

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use oxds_server::dir;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::Output;
use crate::progress;

/// Format of a report on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    #[default]
    Text,
    /// One JSON document, for programs
    Json,
}

/// Format of resources, changes or client states on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Table for people
    #[default]
    Table,
    /// YAML, as in files of resources
    Yaml,
    /// JSON, for programs
    Json,
}

impl View {
    /// Writes a report in this form.
    fn write(self, report: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), Failure> {
        let mut output = Output::new();
        match self {
            Self::Table => output.write(&table()),
            Self::Yaml => output.yaml(report),
            Self::Json => output.json(report),
        }
    }
}

/// Returns the options for reading a folder, with progress on a terminal.
fn dir_options(allow_unknown_fields: bool, strict: bool) -> dir::Options {
    let mut options = dir::Options::default();
    options.codec.allow_unknown_fields = allow_unknown_fields;
    options.codec.grpc_rules = Some(grpc_rules::grpc_rules());
    options.strict = strict;
    options.progress = progress::on_terminal();
    options
}

/// Returns the failure for a folder that cannot be read.
fn unreadable(error: &dir::Error) -> Failure {
    Failure::usage(error)
}

/// Starts a runtime, for the commands that use the network.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::negative(format_args!("cannot start the runtime: {error}")))
}

/// Parses a duration: `500ms`, `10s`, `1.5s`, `2m`, `1h`. A number without a unit is an error, because
/// the unit would be a guess.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("expected a number and a unit: 500ms, 10s, 2m".to_owned()),
    };
    let number = f64::from_str(number).map_err(|error| format!("{number:?}: {error}"))?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())?;
    if duration.is_zero() {
        return Err("expected a duration above zero".to_owned());
    }
    Ok(duration)
}

/// Returns the name of this machine; empty if it has none.
fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_default();
    host.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "s", "-1s", "1e400s", "0s", "5 parsecs", "naNs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
