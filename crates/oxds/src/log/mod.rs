//! Logs on stderr, so that stdout has only results.
//!
//! ```text
//!  tracing events ──▶ fields (escaped) ──▶ lines (bounded queue, counts what is lost) ──▶ thread ──▶ stderr
//!  progress, errors of commands ─────────────▲
//! ```

mod fields;
mod lines;

use std::io::{IsTerminal as _, Write};
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::ValueEnum;
use oxds_types::text;
use tracing::warn;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

use crate::terminal;
use fields::EscapedFields;
use lines::{LineWriter, stderr};

/// Longest time that the end of the process waits for its last lines to be written.
const FLUSH: Duration = Duration::from_secs(1);

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
/// `RUST_LOG` is ignored and reported.
pub(crate) fn start(format: LogFormat, default: &str) {
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let (mut filter, mut malformed) = (EnvFilter::default(), Vec::new());
    let directives = match wanted.as_str() {
        "" => default,
        wanted => wanted,
    };
    for directive in directives.split(',').filter(|text| !text.is_empty()) {
        // `EnvFilter` reports malformed directives by `eprintln!`, which panics if stderr is unwritable.
        match Directive::from_str(directive) {
            Ok(directive) => filter = filter.add_directive(directive),
            Err(error) => malformed.push((directive, error)),
        }
    }
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal() && terminal::colour_wanted())
            .with_target(false)
            .fmt_fields(EscapedFields)
            .with_writer(|| LineWriter)
            .init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_writer(|| JsonWriter)
            .init(),
    }
    for (directive, error) in malformed {
        warn!(directive, %error, "malformed directive in RUST_LOG is ignored");
    }
}

/// Writes to stderr without waiting for it.
pub(crate) fn write(text: &str) {
    stderr().write(text.as_bytes());
}

/// Returns the counter of lines that were lost because stderr could not be written, or was not read in time.
pub(crate) fn lost_lines() -> Arc<AtomicU64> {
    stderr().lost()
}

/// Waits at most a second until all lines are written.
pub(crate) fn flush() {
    stderr().flush(FLUSH);
}

/// A writer of log lines in JSON, which escapes what a terminal would obey.
struct JsonWriter;

impl Write for JsonWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let json = text::json(String::from_utf8_lossy(line).into_owned());
        stderr().write(json.as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
