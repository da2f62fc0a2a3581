//! GitLab code quality report.

use serde_json::json;

use super::findings::{Report, place, sentence};
use super::json::pretty;
use crate::finding::Severity;

pub(super) fn render(report: &Report) -> String {
    let issues = report.counted().map(|finding| {
        let at = place(finding);
        json!({
            "description": format!("{}: {}", finding.element, sentence(finding)),
            "check_name": finding.rule.id,
            "fingerprint": finding.fingerprint(),
            "severity": match finding.severity {
                Severity::Error => "major",
                Severity::Warning => "minor",
                Severity::Note => "info",
            },
            "location": {
                "path": at.map_or("", |at| at.path.as_str()),
                "lines": { "begin": at.and_then(|at| at.span).map_or(1, |span| span.line) },
            },
        })
    });
    pretty(&issues.collect::<Vec<_>>())
}
