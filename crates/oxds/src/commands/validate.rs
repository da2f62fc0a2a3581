//! `oxds validate`: the checks of `oxds serve` on a folder, without a server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use oxds_server::dir::Report;
use oxds_server::{FileSink, Finding, Severity};
use oxds_types::text;
use serde::Serialize;

use super::args::lifecycle::FolderFieldArgs;
use super::bootstrap::check::certificate_providers;
use super::{Format, files};
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds validate ./config
  oxds validate ./config --strict                    # in CI: warnings fail, too
  oxds validate ./config --format json | jq -r '.findings[].file'
  oxds validate ./config --files /run/xds            # as for `serve --files`
  oxds validate ./config --bootstrap bootstrap.json  # checks the names of certificate providers, too

It checks syntax, field names and types, the rules of the API (`validate.rules`), duplicate names, and \
references to missing routes, clusters, endpoints and secrets. It warns of parts that never take effect \
or that clients reject: equal filter chains, RBAC policies that never match, settings that gRPC servers \
do not accept. A finding starts with one line that editors \
parse: `file:line:column: error: field.path: reason`.

Exit codes: 0 no errors, 1 errors, 2 the folder cannot be read or the arguments are wrong.
Warnings do not change the exit code, except with --strict.";

/// Check a folder of resources, as `serve` would read it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder to check
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Fail on warnings, too: references to missing resources, deprecated fields, parts without effect, an empty folder
    #[arg(long)]
    strict: bool,
    /// Also check that `serve --files` could write the resources to this folder; writes nothing
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// gRPC bootstrap of the clients: certificate providers that it does not have are warnings
    #[arg(long, value_name = "FILE")]
    bootstrap: Option<PathBuf>,
    /// Format of the findings on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    fields: FolderFieldArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let providers = args.bootstrap.as_deref().map(certificate_providers);
    let providers = providers.transpose()?;
    let mut report = args.fields.load(&args.dir, args.strict, providers)?;
    if let Some(out) = &args.files {
        files::check(&args.dir, out)?;
        let findings = FileSink::check(out, report.of_all_nodes());
        report.findings.extend(findings);
    }
    let mut output = Output::new();
    match args.format {
        Format::Text => output.write(&as_text(&report))?,
        Format::Json => output.json(&JsonReport::of(&report))?,
    }
    let count = |severity| report.count(severity);
    let bad = count(Severity::Error) > 0 || args.strict && count(Severity::Warning) > 0;
    Ok(if bad { Exit::Negative } else { Exit::Success })
}

/// Returns the findings, each with its lines of the file, and a line of counts.
fn as_text(report: &Report) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        out += &format!("{finding}\n");
        if let Some(snippet) = &finding.snippet {
            out += &format!("{}\n", text::lines(snippet.trim_end()));
        }
    }
    if report.more_findings.total() > 0 {
        out += &format!(
            "{} more findings are not shown\n",
            report.more_findings.total()
        );
    }
    let counts: Vec<_> = count_by_type(report)
        .into_iter()
        .map(|(resource_type, count)| format!("{count} {resource_type}"))
        .collect();
    let counts = if counts.is_empty() {
        String::new()
    } else {
        format!(" ({})", counts.join(", "))
    };
    out += &format!(
        "{}, {}{counts}: {}, {}\n",
        counted(report.files, "file"),
        counted(report.resources.len(), "resource"),
        counted(report.count(Severity::Error), "error"),
        counted(report.count(Severity::Warning), "warning"),
    );
    out
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Counts the resources by the short name of their message.
fn count_by_type(report: &Report) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for resource in &report.resources {
        let message = resource.resource_type().message();
        let short = message.rsplit('.').next().unwrap_or(message);
        *counts.entry(short.to_owned()).or_default() += 1;
    }
    counts
}

/// The report as JSON. Later versions may add fields, and do not rename any.
#[derive(Debug, Serialize)]
struct JsonReport<'a> {
    files: usize,
    resources: BTreeMap<String, usize>,
    errors: usize,
    warnings: usize,
    seconds: f64,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct JsonFinding<'a> {
    severity: &'static str,
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    resource: Option<&'a str>,
    /// Path of the field in the resource.
    path: &'a str,
    rule: &'static str,
    /// Deprecated or unfinished element, or accepted unknown field.
    element: Option<&'a str>,
    message: &'a str,
}

impl<'a> JsonReport<'a> {
    fn of(report: &'a Report) -> Self {
        Self {
            files: report.files,
            resources: count_by_type(report),
            errors: report.count(Severity::Error),
            warnings: report.count(Severity::Warning),
            seconds: rounded(report.took),
            findings: report.findings.iter().map(JsonFinding::of).collect(),
        }
    }
}

impl<'a> JsonFinding<'a> {
    pub(super) fn of(finding: &'a Finding) -> Self {
        Self {
            severity: finding.severity.as_str(),
            file: finding.file.display().to_string(),
            line: finding.position.map(|at| at.line),
            column: finding.position.map(|at| at.column),
            resource: finding.resource.as_deref(),
            path: &finding.path,
            rule: finding.rule,
            element: finding.element.as_deref(),
            message: &finding.message,
        }
    }
}

/// Returns the duration in seconds, rounded to a millisecond.
fn rounded(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e3).round() / 1e3
}
