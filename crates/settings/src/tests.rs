//! Values, positions and errors of files of settings.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    names: Vec<String>,
    #[serde(default)]
    values: BTreeMap<String, Scalar>,
    #[serde(default)]
    yes: bool,
    #[serde(default)]
    count: Option<u8>,
    #[serde(default)]
    share: f64,
    #[serde(default)]
    color: Option<Color>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Color {
    Red,
    Green,
}

/// Given a file with an error, when it is read, then the error has the position once, and no terms of the parser.
#[test]
fn errors_have_a_position_and_no_parser_terms() {
    for (text, position, reason) in [
        ("", "1:1", "the file is empty"),
        ("# later\n", "2:1", "the file is empty"),
        ("names: 3", "1:8", "expected a list (`- item`)"),
        ("names: [[a]]", "1:9", "expected a string"),
        ("names: [~]", "1:9", "expected a string"),
        (
            "names: [.nan]",
            "1:9",
            "value `.nan` is not a finite number",
        ),
        ("- names", "1:1", "expected a mapping (`key: value`)"),
        ("names: []\nnames: []", "2:1", "duplicate key `names`"),
        ("yes: true", "1:1", "missing field `names`"),
        ("names: []\nyes: maybe", "2:6", "expected `true` or `false`"),
        (
            "names: []\nyes: \"true\"",
            "2:6",
            "expected `true` or `false`",
        ),
        (
            "names: []\nnot: 1",
            "2:1",
            "unknown field `not`, expected one of names, values, yes, count, share, color",
        ),
        ("names: []\ncount: many", "2:8", "expected a number"),
        (
            "names: []\ncount: 256",
            "2:8",
            "integer `256`: expected a whole number from 0 to 255",
        ),
        (
            "names: []\ncount: 1.5",
            "2:8",
            "floating point `1.5`: expected a whole number from 0 to 255",
        ),
        (
            "names: []\ncolor: blue",
            "2:8",
            "`blue`: expected one of red, green",
        ),
        (
            "names: []\n---\nnames: []",
            "3:1",
            "unexpected second document: expected one document per file",
        ),
        (
            "names: *all",
            "1:8",
            "unknown anchor: an anchor must be defined before it is used",
        ),
        (
            "names:\n\t- a",
            "2:2",
            "tabs disallowed within this context (block indentation)",
        ),
        (
            "names: []\nvalues: {a: {b: c}}",
            "2:13",
            "a mapping: expected a string, a number or a boolean",
        ),
    ] {
        let error = read::<File>(text.as_bytes()).expect_err(text);
        let at = error.position.map(|at| at.to_string());
        assert_eq!(
            (at.as_deref(), &*error.reason),
            (Some(position), reason),
            "{text}"
        );
    }
    let error = read::<File>(b"names:\n- a\n- \xff").unwrap_err();
    assert_eq!(error.position.unwrap().to_string(), "3:3");
    assert_eq!(error.reason, "not UTF-8");
    assert_eq!(error.place(Path::new("a.yaml")), "a.yaml:3:3");
}

#[test]
fn scalars_are_read_as_text() {
    let file: File =
        read(b"names: []\nvalues: {a: 3, b: true, c: gold, d: 1.5, e: -2, f: \"3\"}").unwrap();
    let values: Vec<&str> = file.values.values().map(|value| &*value.0).collect();
    assert_eq!(values, ["3", "true", "gold", "1.5", "-2", "3"]);
}

/// Given a file above a limit of the parser, when it is read, then the error has the limit.
#[test]
fn limits_are_named() {
    let many = format!("names: [{}]", "a, ".repeat(300_000));
    let deep = |lists| format!("names: {}{}", "[".repeat(lists), "]".repeat(lists));
    for (text, reason) in [
        (many, "more than 250000 values: expected fewer"),
        (
            deep(100),
            "more than 40 lists and mappings in each other: expected fewer",
        ),
        // The mapping is one of the 40.
        (deep(39), "expected a string"),
    ] {
        let error = read::<File>(text.as_bytes()).unwrap_err();
        assert_eq!(error.reason, reason);
        assert_eq!(error.position.map(|at| at.line), Some(1));
    }
}

/// Given values that YAML takes for numbers, booleans or dates, when texts are expected, then they are as they are
/// written.
#[test]
fn texts_are_as_written() {
    let file: File = read(
        b"names: [1.10, 0x1F, 2027-03-31, true, yes, 'a b', \"c\\td\", 007, 1e3 , +5]\ncount: 7\nshare: 2\ncolor: red\nyes: true",
    )
    .unwrap();
    assert_eq!(
        file.names,
        [
            "1.10",
            "0x1F",
            "2027-03-31",
            "true",
            "yes",
            "a b",
            "c\td",
            "007",
            "1e3",
            "+5"
        ]
    );
    assert_eq!(
        (file.count, file.share, file.color, file.yes),
        (Some(7), 2.0, Some(Color::Red), true)
    );
    // A byte order mark, and line ends of Windows.
    let marked: File = read("\u{feff}names:\r\n- 1.10\r\n- 2.0".as_bytes()).unwrap();
    assert_eq!(marked.names, ["1.10", "2.0"]);
    let block: File =
        read("# é\nnames:\n- 1.20 # a comment\n- 3.0\n- é\n- 4.0".as_bytes()).unwrap();
    assert_eq!(block.names, ["1.20", "3.0", "é", "4.0"]);
}

/// Given scalars of each form, when texts are expected, then they are those that the parser returns for a text.
#[test]
fn texts_are_those_of_the_parser() {
    let scalars = [
        "1_000",
        ".5",
        "-0",
        "0o17",
        "08",
        "True",
        "NO",
        "on",
        "~x",
        "12:30:00",
        "'it''s'",
        "\"\\u00e9 \\\"\"",
        "!!str 1.20",
        "!!str 'x'",
        "&a 1.30",
        "1.40 # why",
        "a b\n  c",
        "|\n  1.50\n  x\n",
        ">-\n  1.60\n",
        "'1.70'",
        "99999999999999999999999",
    ];
    for scalar in scalars {
        let text = format!("- {scalar}\n- 2.0\n");
        let expected: Vec<String> = serde_saphyr::from_str(&text).expect(scalar);
        assert_eq!(
            read::<Vec<String>>(text.as_bytes()).unwrap(),
            expected,
            "{scalar}"
        );
    }
}

/// Given an anchor and aliases of it, when they are read, then each has the value of the anchor and the position of the
/// alias.
#[test]
fn an_alias_has_its_own_position() {
    let names: BTreeMap<String, Located<String>> = read(b"a: &one 1.10\nb: *one\nc: gold").unwrap();
    let names: Vec<_> = names
        .values()
        .map(|name| (name.position.to_string(), name.value.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("1:9".to_owned(), "1.10"),
            ("2:4".to_owned(), "1.10"),
            ("3:4".to_owned(), "gold")
        ]
    );
}

/// Given a list of mappings, when an entry has an error, then the position is that of the value within it.
#[test]
fn errors_name_the_innermost_value() {
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rule {
        #[expect(dead_code)]
        name: String,
    }
    let error = read::<Vec<Located<Rule>>>(b"- name: a\n- {name: b, nam: c}").unwrap_err();
    assert_eq!(error.place(Path::new("r.yaml")), "r.yaml:2:13");
    let error = read::<Vec<Located<Rule>>>(b"- name: a\n- name: [b]").unwrap_err();
    assert_eq!(error.place(Path::new("r.yaml")), "r.yaml:2:9");
    let error = read::<Vec<Located<Rule>>>(b"- name: a\n-   {}").unwrap_err();
    assert_eq!(error.place(Path::new("r.yaml")), "r.yaml:2:5");
    assert_eq!(error.to_string(), "missing field `name`");
}

/// Given an empty file, when an optional value is read, then it is `None`.
#[test]
fn an_empty_file_is_no_value() {
    for text in ["", "# all is commented out\n", "---\n", "~"] {
        assert_eq!(
            read::<Option<File>>(text.as_bytes()).unwrap(),
            None,
            "{text}"
        );
    }
}

/// Given keys without values, when lists and mappings are expected, then they are empty.
#[test]
fn a_key_without_value_is_an_empty_list_or_mapping() {
    let file: File = read(b"names:\n# - a\nvalues:\n").unwrap();
    assert_eq!((file.names.len(), file.values.len()), (0, 0));
}

/// Given a merge key, when the mapping is read, then it has the entries of the anchor.
#[test]
fn merge_keys_are_merged() {
    let maps: BTreeMap<String, BTreeMap<String, u32>> =
        read(b"base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}").unwrap();
    assert_eq!(
        maps["more"],
        BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 3)])
    );
}
