//! Tests that dashboard and alert rules of `docs/observability/` use metrics that exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::repository::read;

/// Returns the words of a text that are names of metrics of the server, without the suffixes of a histogram.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("oxds_"));
    let base = |name: &str| name.strip_suffix("_bucket").unwrap_or(name).to_owned();
    names.map(base).collect()
}

/// Returns the names in the first column of the tables of `docs/metrics.md`.
fn documented() -> BTreeSet<String> {
    let page = read("docs/metrics.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `oxds_"));
    rows.flat_map(|row| {
        metrics(&format!(
            "`oxds_{}",
            row.split('|').next().unwrap_or_default()
        ))
    })
    .collect()
}

#[test]
fn rules_use_documented_metrics() {
    let documented = documented();
    for (file, least) in [
        ("alerts.yaml", 8),
        ("alerts.test.yaml", 8),
        ("alerts-etcd.yaml", 4),
        ("alerts-etcd.test.yaml", 4),
    ] {
        let used = metrics(&read(&format!("docs/observability/{file}")));
        assert!(used.len() >= least, "{file}: {used:?}");
        let unknown: Vec<_> = used.difference(&documented).collect();
        assert!(unknown.is_empty(), "{file} uses {unknown:?}");
    }
}

/// Each panel has a query, a place that no other panel has, and metrics that exist.
#[test]
fn dashboard_uses_documented_metrics() {
    let documented = documented();
    let dashboard: Value =
        serde_json::from_str(&read("docs/observability/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut places = BTreeSet::new();
    for panel in panels {
        let title = &panel["title"];
        assert!(
            places.insert(panel["gridPos"].to_string()),
            "place of {title}"
        );
        for query in panel["targets"].as_array().expect("targets") {
            let used = metrics(query["expr"].as_str().expect("a query"));
            assert!(!used.is_empty(), "{title}");
            let unknown: Vec<_> = used.difference(&documented).collect();
            assert!(unknown.is_empty(), "{title} uses {unknown:?}");
        }
    }
    assert!(panels.len() > 10);
}
