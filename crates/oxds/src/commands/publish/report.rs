//! Report of a publish: what was added, changed and removed, or why nothing was.

use jiff::Timestamp;
use oxds_etcd::publisher::{
    ChangeCounts, ChangeKind, Conflict, PublishError, PublishOutcome, Summary,
};
use oxds_etcd::{Entry, Segment};
use oxds_server::Finding;
use oxds_types::text;
use serde::Serialize;

use crate::commands::Format;
use crate::commands::changes::{self, ChangeRow, JsonChange, totals};
use crate::commands::validate::JsonFinding;
use crate::exit::Failure;
use crate::output::Output;
use crate::table::one_line;

/// Largest number of conflicts that are listed.
const MAX_CONFLICTS: usize = 20;

/// Prints the findings of a folder that is not published.
pub(super) fn findings(format: Format, findings: &[Finding]) -> Result<(), Failure> {
    let mut output = Output::new();
    match format {
        Format::Text => {
            output.write(&lines(findings))?;
            output.line("nothing was published")
        }
        Format::Json => output.json(&JsonReport {
            result: "invalid",
            findings: findings.iter().map(JsonFinding::of).collect(),
            ..JsonReport::default()
        }),
    }
}

/// Prints what was published, or would be.
pub(super) fn outcome(
    format: Format,
    lane: &Segment,
    outcome: &PublishOutcome,
    findings: &[Finding],
) -> Result<(), Failure> {
    let mut output = Output::new();
    match format {
        Format::Text => output.write(&(lines(findings) + &text_of(lane, outcome))),
        Format::Json => output.json(&JsonReport::of(lane, outcome, findings)),
    }
}

/// Returns the failure for an error, with the time of conflicting publishes.
pub(super) fn failure(error: &PublishError) -> Failure {
    let PublishError::Conflicts(conflicts) = error else {
        return Failure::negative(error);
    };
    let mut lines: Vec<_> = conflicts.iter().take(MAX_CONFLICTS).map(conflict).collect();
    let more = conflicts.len().saturating_sub(MAX_CONFLICTS);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let lines = lines.join("\n  ");
    let failure = Failure::negative(format_args!(
        "not published: another writer changed the same resources while this publish was prepared:\n  {lines}"
    ));
    failure.hint("publish again to write over what is published now, or use --force")
}

fn conflict(conflict: &Conflict) -> String {
    let Conflict {
        entry, seq, by, at, ..
    } = conflict;
    let or_before = if conflict.is_exact { "" } else { " or before" };
    let at = time(*at);
    one_line(&format!(
        "{entry}: by {by} at {at} in publish {seq}{or_before}"
    ))
}

fn time(milliseconds: u64) -> String {
    let at = i64::try_from(milliseconds).ok();
    let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string())
}

fn lines(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        out += &format!("{finding}\n");
        if let Some(snippet) = &finding.snippet {
            out += &format!("{}\n", text::lines(snippet.trim_end()));
        }
    }
    out
}

fn text_of(lane: &Segment, outcome: &PublishOutcome) -> String {
    let last = match outcome {
        PublishOutcome::Unchanged { seq } => {
            format!("nothing to publish: lane {lane} has this content since publish {seq}")
        }
        PublishOutcome::DryRun(summary) => {
            format!("dry run: lane {lane} would get {}", totals(counts(summary)))
        }
        PublishOutcome::Published {
            publish,
            seq,
            summary,
            ..
        } => format!(
            "published {seq} to lane {lane}: {} ({publish})",
            totals(counts(summary))
        ),
    };
    let unfinished = match outcome {
        PublishOutcome::Published {
            unfinished: Some(reason),
            ..
        } => format!(
            "warning: replicas serve the publish, but its stage is not cleaned up: {reason}; the next publish does that\n"
        ),
        _ => String::new(),
    };
    let names = match outcome {
        PublishOutcome::DryRun(summary) => names(summary),
        _ => String::new(),
    };
    let table = summary(outcome).map_or_else(String::new, table);
    format!("{names}{table}{}\n{unfinished}", one_line(&last))
}

fn summary(outcome: &PublishOutcome) -> Option<&Summary> {
    match outcome {
        PublishOutcome::Unchanged { .. } => None,
        PublishOutcome::DryRun(summary) | PublishOutcome::Published { summary, .. } => {
            Some(summary).filter(|summary| !summary.is_empty())
        }
    }
}

fn counts(summary: &Summary) -> ChangeCounts {
    ChangeCounts::of(summary.changes.values().copied())
}

/// Returns a line for each change.
fn names(summary: &Summary) -> String {
    let rows = summary.changes.iter().map(row);
    rows.map(|row| row.line() + "\n").collect()
}

fn row((entry, kind): (&Entry, &ChangeKind)) -> ChangeRow {
    ChangeRow {
        kind: *kind,
        group: entry.group().map(ToString::to_string),
        resource_type: entry.resource_type().cloned(),
        name: match entry {
            Entry::Matcher(group) => group.to_string(),
            Entry::Resource(place) => place.name.to_string(),
        },
    }
}

fn table(summary: &Summary) -> String {
    let counts = summary.counts().into_iter();
    changes::table(counts.map(|((group, resource_type), counts)| {
        (group.map(|group| group.to_string()), resource_type, counts)
    }))
}

/// Result of a publish, for the report.
fn result_of(outcome: &PublishOutcome) -> &'static str {
    match outcome {
        PublishOutcome::Published { .. } => "published",
        PublishOutcome::Unchanged { .. } => "unchanged",
        PublishOutcome::DryRun(_) => "dry run",
    }
}

/// The report as JSON. Later versions may add fields, and do not rename any.
#[derive(Debug, Default, Serialize)]
struct JsonReport<'a> {
    /// `published`, `unchanged`, `dry run` or `invalid`.
    result: &'static str,
    lane: String,
    seq: Option<u64>,
    publish: Option<String>,
    changes: Vec<JsonChange>,
    /// Why the stage of a large publish is not cleaned up yet.
    unfinished: Option<&'a str>,
    findings: Vec<JsonFinding<'a>>,
}

impl<'a> JsonReport<'a> {
    fn of(lane: &Segment, outcome: &'a PublishOutcome, findings: &'a [Finding]) -> Self {
        let (seq, publish, unfinished) = match outcome {
            PublishOutcome::Published {
                seq,
                publish,
                unfinished,
                ..
            } => (Some(*seq), Some(publish.to_string()), unfinished.as_deref()),
            PublishOutcome::Unchanged { seq } => (Some(*seq), None, None),
            PublishOutcome::DryRun(_) => (None, None, None),
        };
        let changes = summary(outcome).into_iter();
        let changes = changes.flat_map(|summary| &summary.changes);
        Self {
            result: result_of(outcome),
            lane: lane.to_string(),
            seq,
            publish,
            unfinished,
            changes: changes.map(|change| row(change).into()).collect(),
            findings: findings.iter().map(JsonFinding::of).collect(),
        }
    }
}
