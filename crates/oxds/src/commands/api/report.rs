//! How findings are told.

use std::io::{IsTerminal as _, Write as _};

use clap::ValueEnum;
use oxds_apicheck::finding::Severity;
use oxds_apicheck::report::{self, Report, Style};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::terminal::colour_wanted;

/// The form of the findings, and what is bad.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// The form of the findings on stdout
    #[arg(long, value_enum, default_value_t)]
    format: FormatName,
    /// What makes the exit code 1
    #[arg(long, value_enum, default_value_t, value_name = "SEVERITY")]
    fail_on: FailOn,
    /// Print on stderr how many findings each rule has, and how many files were judged
    #[arg(long)]
    stats: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum FormatName {
    /// For people
    #[default]
    Text,
    /// One document
    Json,
    /// A line for each finding
    Jsonl,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub Actions
    Github,
    /// GitLab code quality
    Gitlab,
    /// A test report
    Junit,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum FailOn {
    /// Errors
    #[default]
    Error,
    /// Warnings, too
    Warn,
}

impl ReportArgs {
    /// Prints the report; the exit code says whether it is bad.
    pub(super) fn print(&self, report: &Report) -> Result<Exit, Failure> {
        let style = Style {
            terminal: std::io::stdout().is_terminal() && colour_wanted(),
            snippets: true,
        };
        let format = self.format();
        Output::new().write(&report.render(format, style))?;
        if self.stats {
            let mut stderr = std::io::stderr().lock();
            // Nobody is left to tell when stderr is closed.
            let _ = write!(stderr, "{}", report.stats());
        }
        if format == report::Format::Github {
            step_summary(report)?;
        }
        let severity = match self.fail_on {
            FailOn::Error => Severity::Error,
            FailOn::Warn => Severity::Warning,
        };
        Ok(match report.fails_at(severity) {
            true => Exit::Negative,
            false => Exit::Success,
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

/// A page of the workflow run, where GitHub Actions gives a file for it.
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
