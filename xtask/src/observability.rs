//! Dashboards and alert rules use documented metrics, and documented log messages exist.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::repository::{read, root, rust_files};

/// Files with alert rules and their tests, each with the least metrics that it uses, so that a reader that finds none
/// is noticed.
const RULES: [(&str, usize); 4] = [
    ("alerts.yaml", 8),
    ("alerts.test.yaml", 8),
    ("alerts-etcd.yaml", 4),
    ("alerts-etcd.test.yaml", 4),
];

/// Least panels of the dashboard, so that a reader that finds none is noticed.
const PANELS: usize = 10;

/// Returns metrics that no page documents, and log messages that no source has.
pub(crate) fn check() -> Vec<String> {
    let documented = documented(&read("docs/metrics.md"));
    let mut findings = Vec::new();
    for (file, least) in RULES {
        let text = read(&format!("docs/observability/{file}"));
        findings.extend(unknown(file, &text, least, &documented));
    }
    let dashboard = read("docs/observability/dashboard.json");
    findings.extend(panels(&dashboard, PANELS, &documented));
    let folders = ["crates/server/src", "crates/oxds/src"];
    let files = folders
        .iter()
        .flat_map(|folder| rust_files(&root().join(folder)));
    let sources: String = files
        .map(|file| fs::read_to_string(file).expect("a file"))
        .collect();
    findings.extend(missing_messages(&read("docs/logging.md"), &sources));
    findings
}

/// Returns the words of a text that are names of metrics of the server, without the suffixes of a histogram.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("oxds_"));
    let base = |name: &str| name.strip_suffix("_bucket").unwrap_or(name).to_owned();
    names.map(base).collect()
}

/// Returns the names in the first column of the tables of `docs/metrics.md`.
fn documented(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `oxds_"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(metrics).collect()
}

/// The metrics of a text that are not documented. A text with fewer metrics than the least is a finding, too.
fn unknown(place: &str, text: &str, least: usize, documented: &BTreeSet<String>) -> Vec<String> {
    let used = metrics(text);
    if used.len() < least {
        return vec![format!(
            "{place} uses {} metrics, expected {least} at least",
            used.len()
        )];
    }
    let unknown = used.difference(documented);
    unknown
        .map(|metric| format!("{place} uses {metric}, which docs/metrics.md does not have"))
        .collect()
}

/// Each panel has queries, a place that no other panel has, and metrics that exist.
fn panels(dashboard: &str, least: usize, documented: &BTreeSet<String>) -> Vec<String> {
    let dashboard: Value = serde_json::from_str(dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut findings = Vec::new();
    if panels.len() < least {
        findings.push(format!(
            "dashboard.json has {} panels, expected {least} at least",
            panels.len()
        ));
    }
    let mut places = BTreeSet::new();
    for panel in panels {
        let title = format!("dashboard.json: {}", panel["title"]);
        if !places.insert(panel["gridPos"].to_string()) {
            findings.push(format!("{title} has the place of another panel"));
        }
        let queries = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        if queries.is_empty() {
            findings.push(format!("{title} has no query"));
        }
        for query in queries {
            let query = query["expr"].as_str().unwrap_or_default();
            findings.extend(unknown(&title, query, 1, documented));
        }
    }
    findings
}

/// The messages of `docs/logging.md`, below "Messages", that no source has: `| level | message | fields | meaning |`.
fn missing_messages(page: &str, sources: &str) -> Vec<String> {
    let tables = page.split("## Messages").nth(1).expect("a section");
    let cells = tables.lines().filter_map(|line| line.split('|').nth(2));
    let messages = cells.filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`'));
    messages
        .filter(|message| !sources.contains(&format!("\"{message}\"")))
        .map(|message| format!("docs/logging.md: no source has the message {message:?}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undocumented_metrics_are_found() {
        let page = "| `oxds_acks_total`, `oxds_lag_seconds` | `type` | text of oxds_old |\n";
        let known = documented(page);
        let good = "rate(oxds_acks_total[1m]) / oxds_lag_seconds_bucket";
        assert_eq!(unknown("a", good, 1, &known), Vec::<String>::new());
        assert_eq!(
            unknown("a", "oxds_old > 1", 1, &known),
            ["a uses oxds_old, which docs/metrics.md does not have"]
        );
        assert_eq!(
            unknown("a", "up", 1, &known),
            ["a uses 0 metrics, expected 1 at least"]
        );
    }

    #[test]
    fn panels_have_places_and_metrics() {
        let known = BTreeSet::from(["oxds_a".to_owned()]);
        let dashboard = r#"{ "panels": [
            { "title": "one", "gridPos": { "x": 0 }, "targets": [{ "expr": "oxds_a" }] },
            { "title": "two", "gridPos": { "x": 0 }, "targets": [{ "expr": "oxds_b" }] },
            { "title": "three", "gridPos": { "x": 1 } }
        ] }"#;
        assert_eq!(
            panels(dashboard, 4, &known),
            [
                "dashboard.json has 3 panels, expected 4 at least",
                "dashboard.json: \"two\" has the place of another panel",
                "dashboard.json: \"two\" uses oxds_b, which docs/metrics.md does not have",
                "dashboard.json: \"three\" has no query",
            ]
        );
    }

    #[test]
    fn documented_messages_must_be_in_a_source() {
        let page = "## Messages\n\n| level | message | fields |\n|---|---|---|\n| info | `a b` | `c` |\n| info | `d` | |\n";
        assert_eq!(
            missing_messages(page, "info!(x, \"a b\")"),
            ["docs/logging.md: no source has the message \"d\""]
        );
    }
}
