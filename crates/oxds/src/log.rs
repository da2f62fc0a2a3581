//! Logs, on stderr, so that stdout holds results alone.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::terminal;

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object per line, for machines
    Json,
}

/// Starts logging. `RUST_LOG` decides what is logged, else `default`. What `RUST_LOG` says wrongly is
/// passed over, and named on stderr.
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
