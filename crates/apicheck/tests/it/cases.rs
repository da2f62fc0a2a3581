//! Test cases of the rules: every rule has `ok` and `bad` cases in `testdata/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::{Date, date};
use oxds_apicheck::compare::Comparison;
use oxds_apicheck::finding::Finding;
use oxds_apicheck::ledger::Ledger;
use oxds_apicheck::model::Tree;
use oxds_apicheck::rule::{Compares, Profile, Rule};
use oxds_apicheck::rules::{self, Policy};

use crate::support::{files_below, findings, line, one, testdata, tree};

/// Date for the cases with a ledger.
const TODAY: Date = date(2022, 1, 1);

#[test]
fn cases_of_every_pair_rule_match_their_names() {
    let rules = rules::all().filter(|rule| rule.compares == Compares::Pair);
    let wrong: Vec<_> = rules.flat_map(wrong_cases).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_folder_of_cases_belongs_to_a_rule() {
    for entry in fs::read_dir(testdata()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            assert!(rules::find(&name).is_some(), "no rule {name}");
        }
    }
}

#[test]
fn rules_have_different_ids() {
    let mut ids: Vec<_> = rules::all().map(|rule| rule.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn cases_of_every_tree_rule_match_their_names() {
    let rules = rules::all().filter(|rule| rule.compares == Compares::Tree);
    let wrong: Vec<_> = rules
        .flat_map(|rule| {
            let linted = trees(&testdata().join(rule.id));
            let linted = linted.into_iter().map(|(name, (tree, ledger))| {
                let mut found = rules::lint(&tree, Profile::Policy, &Policy::default(), None);
                if let Some(ledger) = ledger {
                    found.extend(rules::lifecycle(&tree, Profile::Policy, &ledger, TODAY));
                }
                (name, found)
            });
            wrong_findings(rule, linted.collect())
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the wrong cases of a rule about two trees.
fn wrong_cases(rule: &Rule) -> Vec<String> {
    let compared = pairs(&testdata().join(rule.id)).into_iter();
    let compared = compared.map(|(name, (old, new, ledger))| {
        let mut found = findings(&old, &new);
        if let Some(ledger) = ledger {
            let comparison = Comparison::of(&old, &new);
            let early = rules::majors_without_event(&comparison, Profile::Policy, &ledger, TODAY);
            found.extend(early);
        }
        (name, found)
    });
    wrong_findings(rule, compared.collect())
}

/// Returns the errors in the cases of a rule: `ok` or `bad` is missing, an `ok` case has a finding
/// of the rule, or a `bad` case does not have exactly one finding.
fn wrong_findings(rule: &Rule, cases: BTreeMap<String, Vec<Finding>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in ["ok", "bad"] {
        if !cases.keys().any(|name| name.starts_with(name)) {
            wrong.push(format!("{}: no {name} case", rule.id));
        }
    }
    for (name, found) in cases {
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

/// Reads the cases in a folder: `NAME.proto`, or a folder `NAME`. Returns no cases if the folder
/// does not exist.
fn trees(folder: &Path) -> BTreeMap<String, (Tree, Option<Ledger>)> {
    let mut trees = BTreeMap::new();
    for path in entries(folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let found = if path.is_dir() {
            (protos(&path), ledger(&path))
        } else {
            (one(&fs::read_to_string(&path).unwrap()), None)
        };
        trees.insert(name.trim_end_matches(".proto").to_owned(), found);
    }
    trees
}

fn protos(folder: &Path) -> Tree {
    let mut files = files_below(folder);
    files.retain(|(path, _)| path.ends_with(".proto"));
    tree(&files)
}

/// Reads the ledger of a case in a folder, if it has one.
fn ledger(folder: &Path) -> Option<Ledger> {
    Ledger::read(&folder.join("ledger.yaml")).unwrap()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    if !folder.is_dir() {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Reads the cases in a folder: `NAME.old.proto` with `NAME.new.proto`, or `NAME/old` with
/// `NAME/new`.
fn pairs(folder: &Path) -> BTreeMap<String, (Tree, Tree, Option<Ledger>)> {
    let mut pairs = BTreeMap::new();
    for path in entries(folder) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let side = |side| protos(&path.join(side));
            pairs.insert(name, (side("old"), side("new"), ledger(&path)));
        } else if let Some(name) = name.strip_suffix(".old.proto") {
            let side = |side| {
                let path = folder.join(format!("{name}.{side}.proto"));
                one(&fs::read_to_string(path).unwrap())
            };
            pairs.insert(name.to_owned(), (side("old"), side("new"), None));
        }
    }
    pairs
}
