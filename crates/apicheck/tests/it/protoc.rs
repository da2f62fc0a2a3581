//! Files that a compiler refuses, compared with protoc.
//!
//! `testdata/protoc/` has one file for each case, and `expected.txt` with the errors of protoc (written
//! by the script `compare` there) and ours (written by this test with `OXDS_WRITE=1`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use oxds_apicheck::model::Tree;
use oxds_apicheck::parse::Text;

use crate::support::{files_below, testdata};

/// Cases in which oxds decides otherwise than protoc, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "default_string_not_utf8",
        "other compilers refuse it; a string is UTF-8",
    ),
    ("edition_2024", "not supported; the error names what is"),
    (
        "edition_2024_export",
        "not supported; the error names what is",
    ),
    (
        "extend_number_of_import_twice",
        "protoc warns; both extensions have one meaning on the wire",
    ),
    (
        "lex_string_utf8",
        "other compilers refuse it; a string is UTF-8",
    ),
    (
        "ok_message_set",
        "numbers above 2^29 of a message set are not supported by the parser",
    ),
    (
        "ok_option_extension_relative",
        "a relative extension name in a value is not resolved",
    ),
    (
        "reserved_too_large",
        "protoc reserves numbers that no field can have",
    ),
];

/// Cases in which both refuse the file, but oxds shows another line, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "edition_feature_unset_value",
        "protoc shows no line; here it is the option",
    ),
    (
        "edition_required_by_default",
        "protoc shows no line; here it is the option",
    ),
    (
        "enum_alias_false",
        "protoc shows the end of the file; here it is the option",
    ),
    (
        "enum_alias_false_unused",
        "protoc shows the end of the file; here it is the option",
    ),
    (
        "enum_alias_unused",
        "protoc shows the end of the file; here it is the option",
    ),
    (
        "file_features_in_proto3",
        "protoc shows no line; here it is the option",
    ),
];

/// Errors of a case by author.
#[derive(Debug, Default, PartialEq, Eq)]
struct Case {
    protoc: Vec<String>,
    oxds: Vec<String>,
}

fn expected(text: &str) -> BTreeMap<String, Case> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    let mut name = String::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let case = cases.entry(name.clone());
        if let Some(error) = line.strip_prefix("  protoc: ") {
            case.or_default().protoc.push(error.to_owned());
        } else if let Some(error) = line.strip_prefix("  oxds: ") {
            case.or_default().oxds.push(error.to_owned());
        } else {
            line.clone_into(&mut name);
        }
    }
    cases
}

/// Returns our errors as `line:column: message`; `accepted` if there are none.
fn said(name: &str, text: &str, included: &[(String, String)]) -> Vec<String> {
    let path = format!("{name}.proto");
    let file = |path: &str, text: &str, target| {
        let mut text = Text::new(path, text.to_owned());
        text.target = target;
        text
    };
    let mut texts = vec![file(&path, text, true)];
    // As in a compiler, only imported files count.
    let imported = included
        .iter()
        .filter(|(path, _)| text.contains(&format!("\"{path}\"")));
    texts.extend(imported.map(|(path, text)| file(path, text, false)));
    let Err(errors) = Tree::read(&texts) else {
        return vec!["accepted".to_owned()];
    };
    let error = |error: &oxds_apicheck::parse::Error| {
        assert_eq!(error.at.path, path, "{error} in {path}");
        let span = error.at.span;
        let span = span.unwrap_or_else(|| panic!("no place: {error}"));
        format!("{}:{}: {}", span.line, span.column, error.reason)
    };
    errors.iter().map(error).collect()
}

fn line(error: &str) -> Option<u32> {
    error.split(':').next()?.parse().ok()
}

#[test]
fn invalid_files_are_refused_as_by_protoc() {
    let folder = testdata().join("protoc");
    let page = folder.join("expected.txt");
    let text = fs::read_to_string(&page).unwrap();
    let head = text.lines().next().unwrap();
    let mut cases = expected(&text);
    let included = files_below(&folder.join("include"));
    let mut files = 0;
    let mut wrong = Vec::new();
    for (path, text) in files_below(&folder) {
        let Some(name) = path
            .strip_suffix(".proto")
            .filter(|name| !name.contains('/'))
        else {
            continue;
        };
        files += 1;
        let found = said(name, &text, &included);
        let case = cases
            .get_mut(name)
            .unwrap_or_else(|| panic!("{name}: run `compare`"));
        let accepts = |errors: &[String]| errors == ["accepted"];
        let is_different = DIFFERENT.iter().any(|(other, _)| *other == name);
        if (accepts(&found) != accepts(&case.protoc)) != is_different {
            wrong.push(format!("{name}: protoc {:?}, oxds {found:?}", case.protoc));
        }
        let lines: Vec<_> = case.protoc.iter().filter_map(|error| line(error)).collect();
        let is_there = found
            .iter()
            .filter_map(|error| line(error))
            .any(|at| lines.contains(&at));
        let is_elsewhere = ELSEWHERE.iter().any(|(other, _)| *other == name);
        if !lines.is_empty() && !is_different && is_there == is_elsewhere {
            wrong.push(format!("{name}: protoc at {lines:?}, oxds {found:?}"));
        }
        if std::env::var_os("OXDS_WRITE").is_some() {
            case.oxds = found;
        } else if case.oxds != found {
            wrong.push(format!("{name}: expected {:?}, got {found:?}", case.oxds));
        }
    }
    let refused = cases
        .values()
        .filter(|case| case.protoc != ["accepted"])
        .count();
    assert_eq!(files, cases.len(), "expected.txt has cases without a file");
    assert!(refused >= 150, "{refused}");
    if std::env::var_os("OXDS_WRITE").is_some() {
        let mut page_text = format!("{head}\n");
        for (name, case) in &cases {
            let _ = writeln!(page_text, "\n{name}");
            for error in &case.protoc {
                let _ = writeln!(page_text, "  protoc: {error}");
            }
            for error in &case.oxds {
                let _ = writeln!(page_text, "  oxds: {error}");
            }
        }
        fs::write(page, page_text).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
