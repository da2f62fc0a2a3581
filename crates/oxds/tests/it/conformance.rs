//! `docs/conformance-{server,client,versioning}.md` name what shows each behaviour.
//!
//! A behaviour is written by hand, as a row with its number; what shows it is gathered: a test by the numbers that its
//! name starts with (`s17_s80_…`), a rule by the behaviours that it lists, a real peer by the numbers that its scenarios
//! in `interop/` cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use oxds_apicheck::rules;

/// What shows a behaviour, by its number.
type Shown = BTreeMap<u32, BTreeSet<String>>;

#[test]
fn the_page_of_the_server_names_what_there_is() {
    written("conformance-server.md", 'S', [&tests('s'), &peers('S')]);
}

#[test]
fn the_page_of_the_client_names_what_there_is() {
    written("conformance-client.md", 'C', [&tests('c'), &peers('C')]);
}

#[test]
fn the_page_of_versioning_names_what_there_is() {
    written("conformance-versioning.md", 'V', [&rules(), &tests('v')]);
}

/// The page is as the code has it; with `OXDS_WRITE` set it becomes so.
#[track_caller]
fn written(name: &str, letter: char, columns: [&Shown; 2]) {
    let path = root().join("docs").join(name);
    let text = fs::read_to_string(&path).expect(name);
    let expected = page(&text, letter, columns);
    if std::env::var_os("OXDS_WRITE").is_some() {
        fs::write(&path, expected).expect(name);
    } else {
        assert!(
            text == expected,
            "docs/{name} is old: run with OXDS_WRITE=1"
        );
    }
}

#[test]
fn numbers_are_read_from_the_names_of_tests() {
    let text = "#[test]\nfn v27_v28_a_rename() {}\nfn v9_helper() {}\n#[tokio::test(flavor = \"x\")]\n// why\n\
                async fn v3_path() {}\n#[cfg(test)]\nfn v4_no() {}\n#[test]\nfn version() {}\n";
    let found: Vec<_> = names(text).collect();
    assert_eq!(found, ["v27_v28_a_rename", "v3_path", "version"]);
    assert_eq!(numbers("v27_v28_a_rename", 'v'), [27, 28]);
    assert!(numbers("version", 'v').is_empty());
    assert!(numbers("s66_late", 'v').is_empty());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page with what shows each behaviour put in anew, and every number that is shown having its row.
fn page(text: &str, letter: char, columns: [&Shown; 2]) -> String {
    let mut page = String::new();
    let mut rows = BTreeSet::new();
    for line in text.lines() {
        let Some((number, what)) = row(line, letter) else {
            writeln!(page, "{line}").expect("a string");
            continue;
        };
        rows.insert(number);
        let [first, second] = columns.map(|shown| cell(shown.get(&number)));
        writeln!(page, "| {letter}-{number} | {what} | {first} | {second} |").expect("a string");
    }
    let numbers = columns.into_iter().flat_map(BTreeMap::keys).copied();
    let missing: BTreeSet<_> = numbers.filter(|number| !rows.contains(number)).collect();
    assert!(missing.is_empty(), "no row for {letter}-{missing:?}");
    page
}

/// Number and text of a row, as `| V-7 | what | …`.
fn row(line: &str, letter: char) -> Option<(u32, &str)> {
    let line = line.strip_prefix("| ")?.strip_prefix(letter)?;
    let (number, rest) = line.strip_prefix('-')?.split_once(" | ")?;
    let (what, _) = rest.split_once(" |")?;
    Some((number.parse().ok()?, what))
}

fn cell(shown: Option<&BTreeSet<String>>) -> String {
    let Some(shown) = shown else {
        return "–".to_owned();
    };
    let quoted: Vec<_> = shown.iter().map(|one| format!("`{one}`")).collect();
    quoted.join(", ")
}

/// The rules that list a behaviour; those of a tree or a pair have cases in `testdata/`, which `cases.rs` demands.
fn rules() -> Shown {
    let mut shown = Shown::new();
    for rule in rules::all() {
        for behaviour in rule.behaviours {
            let number = behaviour.strip_prefix("V-").and_then(|n| n.parse().ok());
            let number = number.expect("a number");
            shown.entry(number).or_default().insert(rule.id.to_owned());
        }
    }
    shown
}

/// The tests of the workspace that are named after a behaviour of this letter.
fn tests(letter: char) -> Shown {
    let mut shown = Shown::new();
    for folder in ["crates", "testkit", "interop"] {
        for path in sources(&root().join(folder)) {
            let text = fs::read_to_string(&path).expect("read");
            for name in names(&text) {
                for number in numbers(name, letter) {
                    shown.entry(number).or_default().insert(name.to_owned());
                }
            }
        }
    }
    shown
}

/// The scenarios of `interop/` that cite a behaviour of this letter, by the name of their file.
fn peers(letter: char) -> Shown {
    let mut shown = Shown::new();
    for path in sources(&root().join("interop/src/scenarios")) {
        let text = fs::read_to_string(&path).expect("read");
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        for number in cited(&text, letter) {
            shown.entry(number).or_default().insert(name.to_string());
        }
    }
    shown
}

/// The numbers that a text cites.
fn cited(text: &str, letter: char) -> BTreeSet<u32> {
    let mark = format!("{letter}-");
    let places = text.match_indices(&mark).filter_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut digits = text[at + mark.len()..].split(|c: char| !c.is_ascii_digit());
        let number = digits.next()?.parse().ok()?;
        (!before.is_some_and(char::is_alphanumeric)).then_some(number)
    });
    places.collect()
}

/// The Rust files below a folder, without what peers and builds leave there.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("read") {
        let path = entry.expect("read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(sources(&path));
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}

/// The names of functions that stand under a `#[test]` of any runtime.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut marked = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split([']', '(']).next().unwrap_or_default();
            marked |= path == "test" || path.ends_with("::test");
            return None;
        }
        let function = line.strip_prefix("async ").unwrap_or(line);
        let name = function.strip_prefix("fn ")?;
        let name = name.split(['(', '<']).next()?;
        std::mem::take(&mut marked).then_some(name)
    })
}

/// The numbers that a name starts with: 27 and 28 of `v27_v28_a_rename`.
fn numbers(name: &str, letter: char) -> Vec<u32> {
    let parts = name.split('_');
    parts
        .map_while(|part| part.strip_prefix(letter)?.parse().ok())
        .collect()
}
