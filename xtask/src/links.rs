//! Links of the pages of the repository: each leads to a file, and its anchor to a heading there. Rustdoc names pages
//! by their addresses, because a reader on docs.rs does not have the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::repository::{Tracked, root, tracked};

/// Beginnings of the addresses of files of this repository.
const ADDRESSES: [&str; 2] = [
    "https://github.com/oxds/oxds/blob/main/",
    "https://github.com/oxds/oxds/tree/main/",
];

/// Least links of all pages, so that a reader that finds none is noticed.
const LEAST: usize = 100;

/// Returns the links of pages and of rustdoc that lead nowhere.
pub(crate) fn check() -> Vec<String> {
    let pages = tracked(&["*.md"]);
    let is_broken = |page: &Tracked, link: &str| !leads_somewhere(&root().join(&page.path), link);
    let mut findings = Vec::new();
    let mut checked = 0;
    for page in &pages {
        let links = links(&page.text);
        checked += links.len();
        let broken = links.into_iter().filter(|link| is_broken(page, link));
        findings.extend(broken.map(|link| format!("{}: {link} leads nowhere", page.path)));
    }
    if checked < LEAST {
        findings.push(format!(
            "{checked} links were found, expected {LEAST} at least"
        ));
    }
    for file in tracked(&["*.rs", "*.md", "*.toml", ":!xtask"]) {
        let missing = addresses(&file.text).filter(|path| !root().join(path).exists());
        findings.extend(missing.map(|path| format!("{}: {path} leads nowhere", file.path)));
    }
    findings
}

/// The paths of files of this repository whose addresses a text has.
fn addresses(text: &str) -> impl Iterator<Item = &str> {
    let rests = ADDRESSES
        .iter()
        .flat_map(|address| text.split(address).skip(1));
    let is_end = |c: char| c.is_whitespace() || "#)>\"`…".contains(c);
    rests.filter_map(move |rest| rest.split(is_end).next())
}

/// Whether the file of a link exists, and has the heading of its anchor.
fn leads_somewhere(page: &Path, link: &str) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        path => page.with_file_name("").join(path),
    };
    let is_page = target.extension().is_some_and(|ending| ending == "md");
    if anchor.is_empty() || !is_page {
        return target.exists();
    }
    fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_found() {
        let page = "[a](b.md#c) [x](https://d)\n```sh\n[e](f.md)\n```\n[g](#h-i)";
        assert_eq!(links(page), ["b.md#c", "#h-i"]);
        let found = anchors("# A `b`, c\n## d_e-F\n");
        assert_eq!(found, BTreeSet::from(["a-b-c".into(), "d_e-f".into()]));
    }

    #[test]
    fn addresses_of_files_are_found() {
        let text = "//! [a]: https://github.com/oxds/oxds/blob/main/docs/a.md#b\n(https://github.com/oxds/oxds/tree/main/c)\n\
                    https://github.com/oxds/oxds";
        assert_eq!(addresses(text).collect::<Vec<_>>(), ["docs/a.md", "c"]);
    }

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let readme = root().join("README.md");
        for good in [
            "CONTRIBUTING.md",
            "CONTRIBUTING.md#language",
            "docs",
            "#oxds",
        ] {
            assert!(leads_somewhere(&readme, good), "{good}");
        }
        for bad in [
            "missing.md",
            "CONTRIBUTING.md#no-such-heading",
            "#no-such-heading",
        ] {
            assert!(!leads_somewhere(&readme, bad), "{bad}");
        }
    }
}
