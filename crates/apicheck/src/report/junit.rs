//! JUnit report: one suite per file, one failed case per finding.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::findings::{Report, place, sentence};
use crate::finding::Finding;

pub(super) fn render(report: &Report) -> String {
    let mut files: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in report.counted() {
        let path = place(finding).map_or("", |at| at.path.as_str());
        files.entry(path).or_default().push(finding);
    }
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for (path, findings) in &files {
        let count = findings.len();
        let path = escaped(path);
        let _ = writeln!(
            out,
            "  <testsuite name=\"{path}\" tests=\"{count}\" failures=\"{count}\" errors=\"0\">"
        );
        for finding in findings {
            let line = place(finding)
                .and_then(|at| at.span)
                .map_or(0, |span| span.line);
            let _ = writeln!(
                out,
                "    <testcase name=\"{} {}\" classname=\"{path}\" line=\"{line}\">\n      \
                 <failure type=\"{}\" message=\"{}\"/>\n    </testcase>",
                finding.rule.id,
                escaped(&finding.element),
                finding.rule.id,
                escaped(&sentence(finding)),
            );
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

/// Escapes an attribute value. Characters that XML does not allow are replaced.
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
