//! Every rule has cases in `testdata/`, and they do what their names say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oxds_apicheck::finding::Finding;
use oxds_apicheck::model::Tree;
use oxds_apicheck::rule::{self, Compares, Rule};

use crate::support::{files_below, findings, line, one, testdata, tree};

#[test]
fn every_rule_about_a_pair_has_cases_that_do_what_they_say() {
    let rules = rule::all().filter(|rule| rule.compares == Compares::Pair);
    let wrong: Vec<_> = rules.flat_map(wrong_cases).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_of_cases_belongs_to_a_rule() {
    for entry in fs::read_dir(testdata()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            assert!(rule::find(&name).is_some(), "no rule {name}");
        }
    }
}

#[test]
fn rules_have_different_ids() {
    let mut ids: Vec<_> = rule::all().map(|rule| rule.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// What is wrong with the cases of one rule.
fn wrong_cases(rule: &Rule) -> Vec<String> {
    let folder = testdata().join(rule.id);
    let cases = if folder.is_dir() {
        pairs(&folder)
    } else {
        BTreeMap::new()
    };
    let mut wrong = Vec::new();
    for kind in ["ok", "bad"] {
        if !cases.keys().any(|name| name.starts_with(kind)) {
            wrong.push(format!("{}: no {kind} case", rule.id));
        }
    }
    for (name, (old, new)) in cases {
        let found = findings(&old, &new);
        let of_it = found
            .iter()
            .filter(|finding| finding.rule.id == rule.id)
            .count();
        let right = if name.starts_with("ok") {
            of_it == 0
        } else {
            of_it == 1 && found.len() == 1
        };
        if !right {
            wrong.push(format!("{}/{name}: {}", rule.id, lines(&found)));
        }
    }
    wrong
}

fn lines(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing found".to_owned();
    }
    findings.iter().map(line).collect::<Vec<_>>().join(" | ")
}

/// The cases in a folder: `NAME.old.proto` with `NAME.new.proto`, or `NAME/old` with `NAME/new`.
fn pairs(folder: &Path) -> BTreeMap<String, (Tree, Tree)> {
    let mut pairs = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let side = |side| tree(&files_below(&path.join(side)));
            pairs.insert(name, (side("old"), side("new")));
        } else if let Some(name) = name.strip_suffix(".old.proto") {
            let side = |side| {
                let path = folder.join(format!("{name}.{side}.proto"));
                one(&fs::read_to_string(path).unwrap())
            };
            pairs.insert(name.to_owned(), (side("old"), side("new")));
        }
    }
    pairs
}
