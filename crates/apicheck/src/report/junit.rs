//! JUnit report: one suite per file, one case per finding. Only errors are failures: CI systems fail a
//! build for each of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::findings::{Report, place, sentence, severity_word};
use crate::finding::{Finding, Severity};

pub(super) fn render(report: &Report) -> String {
    let mut files: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in report.counted() {
        let path = place(finding).map_or("", |at| at.path.as_str());
        files.entry(path).or_default().push(finding);
    }
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (path, findings) in &files {
        let count = findings.len();
        let errors = findings
            .iter()
            .filter(|one| one.severity == Severity::Error);
        let failures = errors.count();
        let path = escaped(path);
        let _ = writeln!(
            out,
            "  <testsuite name=\"{path}\" tests=\"{count}\" failures=\"{failures}\" errors=\"0\">"
        );
        for finding in findings {
            let line = place(finding)
                .and_then(|at| at.span)
                .map_or(0, |span| span.line);
            let (rule, message) = (finding.rule.id, escaped(&sentence(finding)));
            let result = match finding.severity {
                Severity::Error => format!("<failure type=\"{rule}\" message=\"{message}\"/>"),
                other => {
                    let word = severity_word(other);
                    format!("<system-out>{word}: {message}</system-out>")
                }
            };
            let _ = writeln!(
                out,
                "    <testcase name=\"{rule} {}\" classname=\"{path}\" line=\"{line}\">\n      \
                 {result}\n    </testcase>",
                escaped(&finding.element),
            );
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

/// Escapes an attribute value or a text. Characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(escaped, "&#{};", c as u32);
            }
            c if (c as u32) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            c => escaped.push(c),
        }
    }
    escaped
}
