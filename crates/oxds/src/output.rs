//! Results on stdout.
//!
//! A closed pipe (`oxds … | head`) is not an error: later output is dropped, and the exit code does not
//! change. A full disk is an error.

use std::io::{self, ErrorKind, Write};

use oxds_types::text;

use crate::exit::Failure;

/// Writer of results to stdout, until the reader closes it.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: io::Stdout,
    closed: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            stdout: io::stdout(),
            closed: false,
        }
    }

    /// Writes and flushes, so that a program that reads the output gets it at once.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes, which need not be text, and flushes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let written = self.stdout.write_all(bytes);
        match written.and_then(|()| self.stdout.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => Err(Failure::negative(format_args!("stdout: {error}"))),
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.write(&format!("{line}\n"))
    }

    /// Writes a line that contains names of files or texts of sources: without control characters.
    pub(crate) fn plain_line(&mut self, line: &str) -> Result<(), Failure> {
        self.line(&oxds_apicheck::report::plain(line))
    }

    /// Writes a value as pretty JSON, and a line end.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(value).map_err(Failure::negative)?;
        self.line(&text::json(json))
    }

    /// Writes a value as YAML.
    pub(crate) fn yaml(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text = serde_saphyr::to_string(value).map_err(Failure::negative)?;
        self.write(&text)
    }

    /// Returns whether the reader closed stdout.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}
