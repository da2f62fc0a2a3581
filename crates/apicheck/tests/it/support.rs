//! Helpers: trees from texts and from `testdata/`, and their findings.

use std::fs;
use std::path::{Path, PathBuf};

use oxds_apicheck::bump::{Lock, VersionedTree, Versions};
use oxds_apicheck::compare::Comparison;
use oxds_apicheck::finding::Finding;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::parse::Text;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules;

/// Returns the folder of the test cases.
pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// Compares a page of `docs/` with the generated one. If `OXDS_WRITE` is set in the environment, writes
/// the page instead.
pub(crate) fn written_page(name: &str, make: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    let text = fs::read_to_string(&path).unwrap();
    let expected = make(&text);
    if std::env::var_os("OXDS_WRITE").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        text == expected,
        "docs/{name} is outdated: run the test with OXDS_WRITE=1"
    );
}

/// Returns the files below a folder as `(relative path, text)`, sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(folder, &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let inside = path
            .strip_prefix(folder)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (inside, fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// Builds the tree of these files, which may import files of `testdata/include`.
pub(crate) fn tree<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> Tree {
    let text = |path: &str, text: &str, target| {
        let mut text = Text::new(path, text.to_owned());
        text.target = target;
        text
    };
    let included = files_below(&testdata().join("include"));
    let texts = files
        .iter()
        .map(|(path, one)| text(path.as_ref(), one.as_ref(), true));
    let imports = included.iter().map(|(path, one)| text(path, one, false));
    match Tree::read(&texts.chain(imports).collect::<Vec<_>>()) {
        Ok(tree) => tree,
        Err(errors) => panic!("{errors:#?}"),
    }
}

/// Builds the tree of one file, at the path of its package.
pub(crate) fn one(text: &str) -> Tree {
    let package = text
        .lines()
        .find_map(|line| line.strip_prefix("package ")?.strip_suffix(';'));
    let path = format!("{}/case.proto", package.unwrap_or("none").replace('.', "/"));
    tree(&[(path.as_str(), text)])
}

/// Builds the tree of one proto3 file of package `shop.v1` without imports.
pub(crate) fn shop(body: &str) -> Tree {
    let text = format!("syntax = \"proto3\";\npackage shop.v1;\n{body}");
    match Tree::parse([("shop/v1/case.proto", text.as_str())]) {
        Ok(tree) => tree,
        Err(errors) => panic!("{errors:#?}"),
    }
}

/// Returns the findings of all rules about two trees.
pub(crate) fn findings(old: &Tree, new: &Tree) -> Vec<Finding> {
    let comparison = Comparison::of(old, new);
    let mut findings = rules::breaking(&comparison, Profile::Policy);
    findings.extend(rules::validation::find(
        &comparison,
        Profile::Policy,
        rules::validation::Mode::default(),
    ));
    let (old, new) = (Versioned::of(old), Versioned::of(new));
    let wrong_versions = rules::versions::find(old.side(), new.side(), None, &findings);
    findings.extend(wrong_versions);
    findings.extend(rules::versions::frozen(old.side(), new.side(), None));
    findings
}

/// Tree with its hashes and versions.
pub(crate) struct Versioned<'a> {
    tree: &'a Tree,
    pub(crate) hashes: Hashes,
    pub(crate) versions: Versions,
}

impl<'a> Versioned<'a> {
    pub(crate) fn of(tree: &'a Tree) -> Self {
        Versioned::with(tree, None)
    }

    /// Reads the versions from a lock, too.
    pub(crate) fn with(tree: &'a Tree, lock: Option<&Lock>) -> Self {
        Versioned {
            tree,
            hashes: Hashes::of(tree, VERSION_OPTION),
            versions: Versions::of(tree, VERSION_OPTION, lock),
        }
    }

    pub(crate) fn side(&self) -> VersionedTree<'_> {
        VersionedTree::new(self.tree, &self.hashes, &self.versions)
    }
}

/// Returns the findings between two files of `shop.v1`, as `RULE element: message`.
pub(crate) fn reported(old: &str, new: &str) -> Vec<String> {
    let findings = findings(&shop(old), &shop(new));
    findings.iter().map(line).collect()
}

/// Formats a finding as `RULE element: message`.
pub(crate) fn line(finding: &Finding) -> String {
    format!(
        "{} {}: {}",
        finding.rule.id, finding.element, finding.message
    )
}
