//! SARIF 2.1.0 log for code scanning.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::findings::{Report, place, sentence, severity_word};
use super::json::pretty;
use crate::finding::{Finding, Location};
use crate::rule::Rule;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub(super) fn render(report: &Report) -> String {
    let rules: BTreeMap<&str, &Rule> = report
        .findings()
        .iter()
        .map(|finding| (finding.rule.id, finding.rule))
        .collect();
    let index: BTreeMap<&str, usize> = rules
        .keys()
        .enumerate()
        .map(|(index, id)| (*id, index))
        .collect();
    let results: Vec<Value> = report
        .findings()
        .iter()
        .map(|finding| result(finding, index[finding.rule.id]))
        .collect();
    pretty(&json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "oxds api",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://github.com/oxds/oxds",
                "rules": rules.values().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    }))
}

fn descriptor(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.purpose },
        "fullDescription": { "text": rule.why },
        "helpUri": rule.help_uri(),
        "properties": { "tags": rule.behaviours },
    })
}

fn result(finding: &Finding, rule: usize) -> Value {
    let mut result = json!({
        "ruleId": finding.rule.id,
        "ruleIndex": rule,
        "level": severity_word(finding.severity),
        "message": { "text": format!("{}: {}", finding.element, sentence(finding)) },
        "locations": place(finding).into_iter().map(location).collect::<Vec<_>>(),
        "partialFingerprints": { "ruleAndElement/v1": finding.fingerprint() },
    });
    if let (Some(old), Some(_)) = (&finding.old, &finding.new) {
        let mut related = location(old);
        related["id"] = json!(1);
        related["message"] = json!({ "text": "was" });
        result["relatedLocations"] = json!([related]);
    }
    if let Some(exempt) = &finding.exempt {
        result["suppressions"] = json!([{ "kind": "external", "justification": exempt }]);
    }
    result
}

fn location(at: &Location) -> Value {
    let mut physical = json!({ "artifactLocation": { "uri": uri(&at.path) } });
    if let Some(span) = at.span {
        physical["region"] = json!({
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
        });
    }
    json!({ "physicalLocation": physical })
}

/// Encodes a relative reference (RFC 3986): all other characters are percent-encoded.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte as char);
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
