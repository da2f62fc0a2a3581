//! Logs on stderr, so that stdout has only results.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::terminal;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people
    #[default]
    Text,
    /// One JSON object per line, for programs
    Json,
}

/// Starts logging with the filter of `RUST_LOG`, or `default` if it is not set. A malformed directive in
/// `RUST_LOG` is ignored and reported on stderr.
pub(crate) fn start(format: LogFormat, default: &str) {
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let filter = match wanted.as_str() {
        "" => EnvFilter::new(default),
        wanted => EnvFilter::builder().parse_lossy(wanted),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal() && terminal::colour_wanted())
            .with_target(false)
            .init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
