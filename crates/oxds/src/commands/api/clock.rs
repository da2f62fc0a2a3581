//! `oxds api clock` and `audit`: phases of deprecated elements, and unstable elements.

use oxds_apicheck::audit;
use oxds_apicheck::clock::{self, Deprecation};
use oxds_apicheck::experiment::Experiment;
use oxds_apicheck::finding::Finding;
use oxds_apicheck::generate::UpgradeReason;
use serde::Serialize;

use super::trees::TreeArgs;
use crate::commands::Format;
use crate::commands::args::schedule::ScheduleArgs;
use crate::commands::date::today;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print the deprecation phase of each deprecated element, its dates and its replacement
#[derive(Debug, clap::Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Only this field, value, message or enum; also prints the runtime layer that allows its use
    #[arg(long, value_name = "NAME")]
    element: Option<String>,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Print the release audit: unstable and deprecated elements, packages with two versions of a
/// dependency, types that need the next major
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn clock(args: &ClockArgs) -> Result<Exit, Failure> {
    let tree = args.tree.load()?;
    let ledger = args.tree.ledger()?.unwrap_or_default();
    let mut all = clock::clock(&tree, &ledger, args.schedule.schedule(), today());
    if let Some(name) = &args.element {
        all.retain(|one| one.element == *name);
        if all.is_empty() {
            return Err(
                Failure::usage(format_args!("unknown deprecated element {name}"))
                    .hint("`oxds api clock` lists all; the name of an enum value is ENUM.VALUE"),
            );
        }
    }
    let rows: Vec<Row> = all.iter().map(Row::deprecated).collect();
    let mut output = Output::new();
    if args.format == Format::Json {
        output.json(&rows)?;
        return Ok(Exit::Success);
    }
    for row in &rows {
        output.plain_line(&row.text)?;
    }
    let one = all.first().filter(|_| args.element.is_some());
    if let Some(layer) = one.and_then(Deprecation::layer) {
        output.write(&format!("\nRuntime layer that allows its use:\n\n{layer}"))?;
    }
    Ok(Exit::Success)
}

pub(super) fn audit(args: &AuditArgs) -> Result<Exit, Failure> {
    let tree = args.tree.load()?;
    let ledger = args.tree.ledger()?.unwrap_or_default();
    let audit = audit::audit(&tree, &ledger, args.schedule.schedule(), today());
    let pending = audit.pending.iter();
    let sections = Sections {
        not_stable: audit.experimental.iter().map(Row::experiment).collect(),
        deprecated: audit.deprecated.iter().map(Row::deprecated).collect(),
        two_versions: audit.two_versions.iter().map(Row::two_versions).collect(),
        for_the_next_major: pending
            .map(|(name, reason)| Row::pending(name, reason))
            .collect(),
    };
    let mut output = Output::new();
    if args.format == Format::Json {
        output.json(&sections)?;
        return Ok(Exit::Success);
    }
    for (title, rows) in [
        ("not stable", &sections.not_stable),
        ("deprecated", &sections.deprecated),
        ("two versions of one dependency", &sections.two_versions),
        ("for the next major", &sections.for_the_next_major),
    ] {
        output.plain_line(&format!("{title}: {}", rows.len()))?;
        for row in rows {
            output.plain_line(&format!("  {}", row.text))?;
        }
    }
    Ok(Exit::Success)
}

/// Result of an audit by section.
#[derive(Serialize)]
struct Sections {
    not_stable: Vec<Row>,
    deprecated: Vec<Row>,
    two_versions: Vec<Row>,
    for_the_next_major: Vec<Row>,
}

/// Element with one line of text for people and fields for programs. Unknown fields are omitted.
#[derive(Default, Serialize)]
struct Row {
    element: String,
    #[serde(skip)]
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Maturity or deprecation phase: `alpha`, `warned about`.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_key: Option<String>,
    /// Reason why the element is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Row {
    fn experiment(one: &Experiment) -> Row {
        let age = match &one.age {
            Some((since, made)) => format!("since {since}, {made} more releases"),
            None => "not in the ledger".to_owned(),
        };
        Row {
            text: format!("{}: {} {}, {age}", one.location, one.element, one.maturity),
            element: one.element.clone(),
            place: Some(one.location.to_string()),
            state: Some(one.maturity.to_string()),
            since: one.age.as_ref().map(|(since, _)| since.clone()),
            ..Row::default()
        }
    }

    fn deprecated(one: &Deprecation) -> Row {
        let (replacement, reason) = match &one.replacement {
            Some(Ok(replacement)) => (Some(replacement.clone()), None),
            Some(Err(reason)) => (None, Some(format!("no replacement: {reason}"))),
            None => (None, None),
        };
        Row {
            text: line(one),
            element: one.element.clone(),
            place: Some(one.location.to_string()),
            state: Some(one.phase.to_string()),
            since: one.dates.since.map(|date| date.to_string()),
            until: one.until.map(|date| date.to_string()),
            replacement,
            runtime_key: one.key.clone(),
            reason,
        }
    }

    fn two_versions(finding: &Finding) -> Row {
        Row {
            text: format!("{} {}", finding.element, finding.message),
            element: finding.element.clone(),
            place: finding.new.as_ref().map(ToString::to_string),
            reason: Some(finding.message.clone()),
            ..Row::default()
        }
    }

    fn pending(name: &str, reason: &UpgradeReason) -> Row {
        let text = match reason {
            UpgradeReason::Deprecated => "is deprecated".to_owned(),
            UpgradeReason::DeprecatedMember(member) => format!("has deprecated member {member}"),
            UpgradeReason::MovesTo(package) => format!("moves to {package}"),
            UpgradeReason::RefersTo(other) => format!("refers to {other}"),
        };
        Row {
            text: format!("{name} {text}"),
            element: name.to_owned(),
            reason: Some(text),
            ..Row::default()
        }
    }
}

fn line(one: &Deprecation) -> String {
    let mut line = format!("{}: {} {}", one.location, one.element, one.phase);
    if let Some(since) = one.dates.since {
        line.push_str(&format!(", deprecated since {since}"));
    }
    if let Some(version) = &one.annotated {
        line.push_str(&format!(", deprecated at API {version}"));
    }
    if let Some(until) = one.until {
        line.push_str(&format!(", until {until}"));
    }
    match &one.replacement {
        Some(Ok(replacement)) => line.push_str(&format!("; use {replacement}")),
        Some(Err(reason)) => line.push_str(&format!("; no replacement: {reason}")),
        None => {}
    }
    line
}
