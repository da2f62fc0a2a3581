//! GitHub Actions annotations: workflow commands on stdout.

use std::fmt::Write as _;

use super::findings::{Report, place, sentence};
use crate::finding::Severity;

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    for finding in report.counted() {
        let command = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let _ = write!(out, "::{command} title={}", property(finding.rule.id));
        if let Some(at) = place(finding) {
            let _ = write!(out, ",file={}", property(&at.path));
            if let Some(span) = at.span {
                let _ = write!(
                    out,
                    ",line={},endLine={},col={},endColumn={}",
                    span.line, span.end_line, span.column, span.end_column
                );
            }
        }
        let text = format!("{}: {}", finding.element, sentence(finding));
        let _ = writeln!(out, "::{}", data(&text));
    }
    let _ = writeln!(out, "{}", data(&report.summary()));
    out
}

/// Escapes the text of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

impl Report {
    /// Returns Markdown for `$GITHUB_STEP_SUMMARY`.
    #[must_use]
    pub fn step_summary(&self) -> String {
        let mut out = format!("### oxds api\n\n{}\n", self.summary());
        if self.counted().next().is_some() {
            out += "\n| rule | element | |\n|---|---|---|\n";
        }
        for finding in self.counted() {
            let cell = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
            let _ = writeln!(
                out,
                "| `{}` | `{}` | {} |",
                finding.rule.id,
                cell(&finding.element),
                cell(&sentence(finding))
            );
        }
        out
    }
}
