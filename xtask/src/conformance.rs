//! `docs/conformance-{server,client,versioning,distributed}.md`: each behaviour, and the tests and real peers that show
//! it.
//!
//! A behaviour is written by hand, as a row with its number. The other columns are gathered from the code: a test by
//! the numbers that its name starts with (`s17_s80_…`), a rule by its row of `docs/api-rules.md`, a scenario of
//! `interop/` by the numbers that it cites, or with etcd by those in its name. Each name links to its file. Ignored
//! tests do not count.
//!
//! A page may have reasons for empty cells, each a line `- G-7: reason` below a heading
//! `## Reasons for rows without …`. Then each empty cell needs one, and a reason for a cell that has got evidence is
//! left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use crate::repository::{read, relative, root, rust_files};

/// Names of tests, rules or scenarios by the number of the behaviour that they show, each with the path that it links
/// to.
type Evidence = BTreeMap<u32, BTreeMap<String, String>>;

/// Returns the pages that differ from what the code shows. With `write`, writes them instead.
pub(crate) fn check(write: bool) -> Vec<String> {
    let pages = [
        ("server", 'S', [tests('s'), peers('S')]),
        ("client", 'C', [tests('c'), peers('C')]),
        ("versioning", 'V', [rules(), tests('v')]),
        ("distributed", 'G', [tests('g'), scenarios('g')]),
    ];
    let mut findings = Vec::new();
    for (name, letter, columns) in &pages {
        let name = format!("docs/conformance-{name}.md");
        let text = read(&name);
        match page(&text, *letter, columns.each_ref()) {
            Err(error) => findings.push(format!("{name}: {error}")),
            Ok(expected) if write => fs::write(root().join(&name), expected).expect(&name),
            Ok(expected) if expected != text => {
                findings.push(format!(
                    "{name} is outdated: cargo xtask conformance --write"
                ));
            }
            Ok(_) => {}
        }
    }
    findings
}

/// Returns the page with its two gathered columns renewed. Every number that has evidence must have a row,
/// and every empty cell a reason, if the page has reasons for its column.
fn page(text: &str, letter: char, columns: [&Evidence; 2]) -> Result<String, String> {
    let mut page = String::new();
    let mut rows = BTreeSet::new();
    // Column of the reasons that are read, and the rows that have one.
    let mut columns_with_reasons = 0;
    let mut reasons = [BTreeSet::new(), BTreeSet::new()];
    for line in text.lines() {
        if line.starts_with("## Reasons for rows without") {
            columns_with_reasons += 1;
        }
        if let Some(number) = reason(line, letter)
            && let Some(column) = usize::checked_sub(columns_with_reasons, 1)
        {
            if columns[column].contains_key(&number) {
                continue;
            }
            reasons[column].insert(number);
        }
        let Some((number, behaviour)) = split_row(line, letter) else {
            writeln!(page, "{line}").expect("a string");
            continue;
        };
        rows.insert(number);
        let [first, second] = columns.map(|evidence| cell(evidence.get(&number)));
        writeln!(
            page,
            "| {letter}-{number} | {behaviour} | {first} | {second} |"
        )
        .expect("a string");
    }
    let numbers = columns.into_iter().flat_map(BTreeMap::keys).copied();
    let missing: BTreeSet<_> = numbers.filter(|number| !rows.contains(number)).collect();
    if !missing.is_empty() {
        return Err(format!("no row for {letter}-{missing:?}"));
    }
    for (evidence, reasons) in columns.iter().zip(&reasons).take(columns_with_reasons) {
        let shown = |number: &&u32| evidence.contains_key(number) || reasons.contains(number);
        let missing: Vec<_> = rows.iter().filter(|number| !shown(number)).collect();
        if !missing.is_empty() {
            return Err(format!(
                "no evidence and no reason for {letter}-{missing:?}"
            ));
        }
    }
    Ok(page)
}

/// Number of the row that a line gives a reason for: `- G-7: reason`.
fn reason(line: &str, letter: char) -> Option<u32> {
    let line = line.strip_prefix("- ")?.strip_prefix(letter)?;
    let (number, _) = line.strip_prefix('-')?.split_once(": ")?;
    number.parse().ok()
}

/// Number and behaviour of a row, as `| V-7 | behaviour | … | … |`. A `\|` is part of the text.
fn split_row(line: &str, letter: char) -> Option<(u32, &str)> {
    let line = line.strip_prefix("| ")?.strip_prefix(letter)?;
    let (number, rest) = line.strip_prefix('-')?.split_once(" | ")?;
    let (behaviour, _) = rest.split_once(" | ")?;
    Some((number.parse().ok()?, behaviour))
}

fn cell(evidence: Option<&BTreeMap<String, String>>) -> String {
    let Some(evidence) = evidence else {
        return "–".to_owned();
    };
    let links: Vec<_> = evidence
        .iter()
        .map(|(name, path)| format!("[`{name}`](../{path})"))
        .collect();
    links.join(", ")
}

/// The rules of `oxds api`, by the behaviours that they list. A test of the crate keeps their page current, and demands
/// cases in `testdata/` for each.
fn rules() -> Evidence {
    let mut evidence = Evidence::new();
    let page = read("docs/api-rules.md");
    for (rule, behaviours) in page.lines().filter_map(rule_row) {
        let cases = format!("crates/apicheck/testdata/{rule}");
        let path = if root().join(&cases).is_dir() {
            cases
        } else {
            "docs/api-rules.md".to_owned()
        };
        for behaviour in behaviours.split(", ") {
            let number = behaviour.strip_prefix("V-").and_then(|n| n.parse().ok());
            let names = evidence.entry(number.expect("a number")).or_default();
            names.insert(rule.to_owned(), path.clone());
        }
    }
    evidence
}

/// Name and behaviours of a row, as ``| `RULE` | V-1, V-2 | … |``.
fn rule_row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let rule = cells.next()?.strip_suffix('`')?;
    let behaviours = cells.next()?;
    behaviours.starts_with("V-").then_some((rule, behaviours))
}

/// The tests of the workspace that are named after a behaviour of this letter.
fn tests(letter: char) -> Evidence {
    let mut evidence = Evidence::new();
    for folder in ["crates", "testkit", "interop"] {
        for path in rust_files(&root().join(folder)) {
            let text = fs::read_to_string(&path).expect("a source file");
            for name in names(&text) {
                for number in numbers(name, letter) {
                    evidence
                        .entry(number)
                        .or_default()
                        .insert(name.to_owned(), relative(&path));
                }
            }
        }
    }
    evidence
}

/// The scenarios of `interop/` that are named after a behaviour of this letter.
fn scenarios(letter: char) -> Evidence {
    let mut evidence = Evidence::new();
    for path in rust_files(&root().join("interop/src/scenarios")) {
        let text = fs::read_to_string(&path).expect("a source file");
        for name in scenario_names(&text, letter) {
            for number in numbers(name, letter) {
                let names = evidence.entry(number).or_default();
                names.insert(name.to_owned(), relative(&path));
            }
        }
    }
    evidence
}

/// The names of scenarios in the literals of a file, without the part of their peer: `g7_sizes` of
/// `"etcd_{}_g7_sizes"`.
fn scenario_names(text: &str, letter: char) -> impl Iterator<Item = &str> {
    let literals = text.split('"');
    literals.filter_map(move |literal| {
        let name = literal.strip_prefix("etcd_").unwrap_or(literal);
        let name = name.strip_prefix("{}_").unwrap_or(name);
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        (is_name && !numbers(name, letter).is_empty()).then_some(name)
    })
}

/// The scenarios of `interop/` that cite a behaviour of this letter, by the name of their file.
fn peers(letter: char) -> Evidence {
    let mut evidence = Evidence::new();
    for path in rust_files(&root().join("interop/src/scenarios")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        for number in cited(&text, letter) {
            evidence
                .entry(number)
                .or_default()
                .insert(name.to_string(), relative(&path));
        }
    }
    evidence
}

/// The numbers that a text cites: 7 of `C-7`.
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

/// The names of functions under a `#[test]` of any runtime, without ignored ones.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let (mut is_test, mut is_ignored) = (false, false);
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split([']', '(', ' ']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
            is_ignored |= path == "ignore";
            return None;
        }
        let function = line.strip_prefix("async ").unwrap_or(line);
        let name = function.strip_prefix("fn ")?;
        let name = name.split(['(', '<']).next()?;
        let counts = std::mem::take(&mut is_test) & !std::mem::take(&mut is_ignored);
        counts.then_some(name)
    })
}

/// The numbers that a name starts with: 27 and 28 of `v27_v28_a_rename`.
fn numbers(name: &str, letter: char) -> Vec<u32> {
    let parts = name.split('_');
    parts
        .map_while(|part| part.strip_prefix(letter)?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_names_of_scenarios() {
        let text = "a(\"etcd_{}_g7_g9_limits\"), name(\"g37_leases_end\"), (\"etcd_g33_other\", \"grpc_g1\", \"g5 no\", \"etcd_{}_{what}\")";
        let found: Vec<_> = scenario_names(text, 'g').collect();
        assert_eq!(found, ["g7_g9_limits", "g37_leases_end", "g33_other"]);
    }

    #[test]
    fn empty_cells_need_reasons_and_others_have_none() {
        let one = |number: u32| {
            let names = BTreeMap::from([("g1_a".to_owned(), "a.rs".to_owned())]);
            Evidence::from([(number, names)])
        };
        let text = "| G-1 | a | old | – |\n| G-2 | b | – | – |\n\n## Reasons for rows without a test\n\n- G-1: no more\n- G-2: why\n\n\
                    ## Reasons for rows without a real peer\n\n- G-1: why\n";
        let expected = "| G-1 | a | [`g1_a`](../a.rs) | – |\n| G-2 | b | – | [`g1_a`](../a.rs) |\n\n\
                        ## Reasons for rows without a test\n\n- G-2: why\n\n## Reasons for rows without a real peer\n\n- G-1: why\n";
        assert_eq!(page(text, 'G', [&one(1), &one(2)]), Ok(expected.to_owned()));
        let missing = page(text, 'G', [&one(1), &Evidence::new()]);
        assert_eq!(
            missing,
            Err("no evidence and no reason for G-[2]".to_owned())
        );
        let unknown = page(text, 'G', [&one(3), &one(2)]);
        assert_eq!(unknown, Err("no row for G-{3}".to_owned()));
    }

    #[test]
    fn rules_are_read_from_their_page() {
        let row = "| `A_B` | V-1, V-27 | wire | error | text | `X` |";
        assert_eq!(rule_row(row), Some(("A_B", "V-1, V-27")));
        assert_eq!(rule_row("| rule | behaviours |"), None);
        assert_eq!(rule_row("| `A_B` | policy | text |"), None);
    }

    #[test]
    fn numbers_are_read_from_test_names() {
        let text = "#[test]\nfn v27_v28_a_rename() {}\nfn v9_helper() {}\n#[tokio::test(flavor = \"x\")]\n// why\n\
                    async fn v3_path() {}\n#[cfg(test)]\nfn v4_no() {}\n#[test]\n#[ignore = \"slow\"]\nfn v5_ignored() {}\n\
                    #[test]\nfn version() {}\n";
        let found: Vec<_> = names(text).collect();
        assert_eq!(found, ["v27_v28_a_rename", "v3_path", "version"]);
        assert_eq!(numbers("v27_v28_a_rename", 'v'), [27, 28]);
        assert!(numbers("version", 'v').is_empty());
        assert!(numbers("s66_late", 'v').is_empty());
    }

    #[test]
    fn rows_keep_their_whole_text() {
        let row = "| C-13 | a / b / c; d / e \\| f | `old` | – |";
        assert_eq!(split_row(row, 'C'), Some((13, "a / b / c; d / e \\| f")));
        assert_eq!(split_row("| | behaviour | tests | real peers |", 'C'), None);
    }
}
