//! Tests of the pages: their links lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::repository::{relative, root};

/// Markdown files of a folder and the folders below it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found
}

/// Targets of the links of a page, outside of blocks of code: `[text](target)`.
fn links(page: &str) -> Vec<&str> {
    // Every second part lies between fences.
    let prose = page.split("\n```").step_by(2);
    let after = prose.flat_map(|text| text.split("](").skip(1));
    let targets = after.filter_map(|rest| rest.split(')').next());
    let is_link = |target: &&str| !target.contains("://") && !target.contains(char::is_whitespace);
    targets.filter(is_link).collect()
}

/// Anchors of the headings of a page: in lower case, spaces as hyphens, without other punctuation.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(slug).collect()
}

/// Given all pages of `docs/`, and the README, then each relative link leads to a file, and its anchor to a heading there.
#[test]
fn links_of_pages_lead_somewhere() {
    let mut all = pages(&root().join("docs"));
    all.push(root().join("README.md"));
    let mut wrong = Vec::new();
    let mut checked = 0;
    for page in &all {
        let text = fs::read_to_string(page).expect("a page");
        for link in links(&text) {
            checked += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.with_file_name("").join(path),
            };
            let is_page = target.extension().is_some_and(|ending| ending == "md");
            let has_anchor = || {
                let target = fs::read_to_string(&target).unwrap_or_default();
                anchors(&target).contains(anchor)
            };
            if !target.exists() || is_page && !anchor.is_empty() && !has_anchor() {
                wrong.push(format!("{}: {link}", relative(page)));
            }
        }
    }
    assert!(checked > 100, "{checked} links");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn links_and_anchors_are_found() {
    let page = "[a](b.md#c) [x](https://d)\n```sh\n[e](f.md)\n```\n[g](#h-i)";
    assert_eq!(links(page), ["b.md#c", "#h-i"]);
    let found = anchors("# A `b`, c\n## d_e-F\n");
    assert_eq!(found, BTreeSet::from(["a-b-c".into(), "d_e-f".into()]));
}
