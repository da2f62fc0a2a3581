//! Output of findings in the chosen format.

use std::io::{IsTerminal as _, Write as _};

use clap::ValueEnum;
use oxds_apicheck::finding::Severity;
use oxds_apicheck::report::{self, Report, Style};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::terminal::colour_wanted;

/// Format of the findings, and the severity that fails the command.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Format of the findings on stdout
    #[arg(long, value_enum, default_value_t)]
    format: FormatName,
    /// Lowest severity that makes the exit code 1
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Print the number of findings per rule, and the number of checked files, on stderr
    #[arg(long)]
    stats: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum FormatName {
    /// Text for people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One JSON object per line and finding
    Jsonl,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// GitHub Actions annotations
    Github,
    /// GitLab code quality
    Gitlab,
    /// JUnit test report
    Junit,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum FailOn {
    /// Errors only
    #[default]
    Error,
    /// Errors and warnings
    Warn,
}

impl ReportArgs {
    /// Prints the report, and returns the exit code.
    pub(super) fn print(&self, report: &Report) -> Result<Exit, Failure> {
        let mut style = Style::default();
        style.terminal = std::io::stdout().is_terminal() && colour_wanted();
        style.snippets = true;
        let format = self.format();
        Output::new().write(&report.render(format, style))?;
        if self.stats {
            let mut stderr = std::io::stderr().lock();
            // A closed stderr is not an error.
            let _ = write!(stderr, "{}", report.stats());
        }
        if format == report::Format::Github {
            step_summary(report)?;
        }
        let severity = match self.fail_on {
            FailOn::Error => Severity::Error,
            FailOn::Warn => Severity::Warning,
        };
        Ok(if report.fails_at(severity) {
            Exit::Negative
        } else {
            Exit::Success
        })
    }

    fn format(&self) -> report::Format {
        match self.format {
            FormatName::Text => report::Format::Text,
            FormatName::Json => report::Format::Json,
            FormatName::Jsonl => report::Format::Jsonl,
            FormatName::Sarif => report::Format::Sarif,
            FormatName::Github => report::Format::Github,
            FormatName::Gitlab => report::Format::Gitlab,
            FormatName::Junit => report::Format::Junit,
        }
    }
}

/// Appends a summary to the page of the workflow run, if GitHub Actions provides a file.
fn step_summary(report: &Report) -> Result<(), Failure> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY") else {
        return Ok(());
    };
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path);
    file.and_then(|mut file| std::io::Write::write_all(&mut file, report.step_summary().as_bytes()))
        .map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))
}
