//! `docs/api-rules.md` matches the rules.

use std::collections::HashSet;
use std::fmt::Write as _;

use oxds_apicheck::finding::Severity;
use oxds_apicheck::rule::Rule;
use oxds_apicheck::rules;

use crate::support::written_page;

const START: &str = "<!-- rules -->\n";
const END: &str = "<!-- /rules -->";

#[test]
fn rules_page_matches_the_code() {
    written_page("api-rules.md", |text| {
        let (before, rest) = text.split_once(START).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        format!("{before}{START}{}{}{END}{after}", table(), explanations())
    });
}

#[test]
fn help_address_of_every_rule_is_a_heading() {
    let text = include_str!("../../../../docs/api-rules.md");
    // GitHub makes the anchor of a heading from its lower-case text.
    let anchors: HashSet<String> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("### ")?.to_lowercase()))
        .collect();
    for rule in rules::all().chain(rules::of_exceptions()) {
        let address = rule.help_uri();
        let (page, anchor) = address.split_once('#').unwrap();
        assert!(page.ends_with("/docs/api-rules.md"), "{address}");
        assert!(anchors.contains(anchor), "{address}");
    }
}

/// Writes a heading for each rule, to which reports link.
fn explanations() -> String {
    let mut text = String::from("\n## Explanations\n");
    for rule in rules::all().chain(rules::of_exceptions()) {
        write!(
            text,
            "\n### {}\n\n{}.\n\n{}\n",
            rule.id, rule.purpose, rule.why
        )
        .unwrap();
    }
    text
}

#[test]
fn every_buf_rule_has_a_counterpart_or_a_reason() {
    let text = include_str!("../../../../docs/api-rules.md");
    let (_, reasons) = text
        .split_once("## Findings of buf without a counterpart")
        .unwrap();
    let listed = include_str!("../../testdata/buf-breaking-rules.txt");
    for id in listed.lines().filter(|line| !line.starts_with('#')) {
        let counterpart = rules::all().any(|rule| rule.buf.contains(&id));
        let reason = reasons.contains(&format!("\n| `{id}` |"));
        assert!(
            counterpart != reason,
            "{id}: counterpart {counterpart}, reason {reason}"
        );
    }
}

fn table() -> String {
    let mut table = String::from(
        "| rule | behaviours | category | severity | requirement | rules of buf |\n|---|---|---|---|---|---|\n",
    );
    for rule in rules::all() {
        let Rule {
            id,
            behaviours,
            category,
            purpose,
            buf,
            ..
        } = rule;
        let behaviours = behaviours.join(", ");
        let category = format!("{category:?}").to_lowercase();
        let buf = buf
            .iter()
            .map(|id| format!("`{id}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let severity = severity(rule);
        writeln!(
            table,
            "| `{id}` | {behaviours} | {category} | {severity} | {purpose} | {buf} |"
        )
        .unwrap();
    }
    table
}

fn severity(rule: &Rule) -> String {
    let word = |severity: Option<Severity>| match severity {
        Some(severity) => format!("{severity:?}").to_lowercase(),
        None => "off".to_owned(),
    };
    let (policy, today) = (word(rule.profiles.policy), word(rule.profiles.envoy_today));
    if policy == today {
        policy
    } else {
        format!("{policy}; envoy-today {today}")
    }
}
