//! JSON output: one document, or one line per finding. The first keys are those of buf, so that
//! tools for buf's output can read it.

use serde::Serialize;

use super::findings::{Report, place, severity_word};
use crate::finding::{Finding, Location};

/// Version of the JSON format. It grows when a field changes its meaning, which is not planned.
const FORM: u32 = 1;

#[derive(Serialize)]
struct JsonReport<'a> {
    form: u32,
    compared: Option<&'a str>,
    summary: String,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    path: Option<&'a str>,
    start_line: Option<u32>,
    start_column: Option<u32>,
    end_line: Option<u32>,
    end_column: Option<u32>,
    /// Id of the rule under buf's name for this field.
    r#type: &'a str,
    message: &'a str,
    rule: &'a str,
    severity: &'static str,
    category: String,
    element: &'a str,
    old_element: Option<&'a str>,
    languages: Vec<String>,
    old_value: &'a str,
    new_value: &'a str,
    old: Option<JsonLocation<'a>>,
    fix: Option<&'a str>,
    exempt: Option<&'a str>,
    fingerprint: String,
}

#[derive(Serialize)]
struct JsonLocation<'a> {
    path: &'a str,
    start_line: Option<u32>,
    start_column: Option<u32>,
}

impl<'a> JsonFinding<'a> {
    fn of(finding: &'a Finding) -> Self {
        let at = place(finding);
        let span = at.and_then(|at| at.span);
        JsonFinding {
            path: at.map(|at| at.path.as_str()),
            start_line: span.map(|span| span.line),
            start_column: span.map(|span| span.column),
            end_line: span.map(|span| span.end_line),
            end_column: span.map(|span| span.end_column),
            r#type: finding.rule.id,
            message: &finding.message,
            rule: finding.rule.id,
            severity: severity_word(finding.severity),
            category: format!("{:?}", finding.rule.category).to_lowercase(),
            element: &finding.element,
            old_element: finding.old_element.as_deref(),
            languages: finding.languages.iter().map(ToString::to_string).collect(),
            old_value: &finding.old_value,
            new_value: &finding.new_value,
            old: finding.old.as_ref().map(JsonLocation::of),
            fix: finding.fix.as_deref(),
            exempt: finding.exempt.as_deref(),
            fingerprint: finding.fingerprint(),
        }
    }
}

impl<'a> JsonLocation<'a> {
    fn of(location: &'a Location) -> Self {
        JsonLocation {
            path: &location.path,
            start_line: location.span.map(|span| span.line),
            start_column: location.span.map(|span| span.column),
        }
    }
}

pub(super) fn document(report: &Report) -> String {
    let document = JsonReport {
        form: FORM,
        compared: report.compared.as_deref(),
        summary: report.summary(),
        findings: report.findings().iter().map(JsonFinding::of).collect(),
    };
    pretty(&document)
}

pub(super) fn lines(report: &Report) -> String {
    let line =
        |finding| serde_json::to_string(&JsonFinding::of(finding)).unwrap_or_default() + "\n";
    report.findings().iter().map(line).collect()
}

/// Serialises a value. These types cannot fail to serialise.
pub(super) fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
