//! The next major, against the one that Envoy's own tool made of the same tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;

use flate2::read::GzDecoder;
use oxds_apicheck::bump::frozen_by_status;
use oxds_apicheck::compare::Comparison;
use oxds_apicheck::generate::{
    Generated, NotPromoted, Plan, differences, next_major, promote, structural_differences,
    typemap, write,
};
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::parse::Text;
use oxds_apicheck::print::Printer;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules;

use crate::support::testdata;

/// The golden tree: `(import path, text, target)`.
pub(crate) fn golden() -> Vec<(String, String, bool)> {
    let archive = testdata().join("golden/envoy-api-2021-08-18.tar.gz");
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive).unwrap()));
    let mut files = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let (_, path) = path.split_once('/').unwrap();
        if path.ends_with(".proto") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let dependency = path.strip_prefix("deps/");
            let import = dependency.unwrap_or(path).to_owned();
            files.push((import, text, dependency.is_none()));
        }
    }
    files
}

pub(crate) fn read<'a>(files: impl IntoIterator<Item = &'a (String, String, bool)>) -> Tree {
    let texts: Vec<Text> = files
        .into_iter()
        .map(|(path, text, target)| Text {
            path: path.as_str().into(),
            display: path.as_str().into(),
            target: *target,
            bytes: text.clone().into(),
        })
        .collect();
    match Tree::read(&texts) {
        Ok(tree) => tree,
        Err(errors) => {
            let lines: Vec<String> = errors.iter().take(20).map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"));
        }
    }
}

fn is_v4(path: &str) -> bool {
    path.contains("/v4alpha/")
}

#[test]
fn v38_the_golden_tree_gives_the_same_packages_and_files() {
    let golden = golden();
    let source = read(golden.iter().filter(|(path, ..)| !is_v4(path)));
    let next = next_major(&source);
    let expected: BTreeSet<&str> = golden
        .iter()
        .map(|(path, ..)| path.as_str())
        .filter(|path| is_v4(path))
        .collect();
    let made: BTreeSet<&str> = next.files.iter().map(|file| file.path.as_str()).collect();
    let missing: Vec<_> = expected.difference(&made).collect();
    let more: Vec<_> = made.difference(&expected).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "missing {missing:#?} more {more:#?}"
    );
    assert_eq!(made.len(), 125);
    let packages: BTreeSet<&str> = made
        .iter()
        .filter_map(|path| Some(path.rsplit_once('/')?.0))
        .collect();
    assert_eq!(packages.len(), 72);
}

#[test]
fn v39_the_golden_files_are_structurally_equal() {
    let golden = golden();
    let source = read(golden.iter().filter(|(path, ..)| !is_v4(path)));
    let next = next_major(&source);
    let made: BTreeMap<String, String> = next
        .files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect();
    // given the golden tree, and the same tree with our files in place of its v4alpha ones
    let ours: Vec<(String, String, bool)> = golden
        .iter()
        .filter(|(path, ..)| !is_v4(path))
        .cloned()
        .chain(
            made.iter()
                .map(|(path, text)| (path.clone(), text.clone(), true)),
        )
        .collect();
    let (theirs, ours) = (read(&golden), read(&ours));
    let differences = structural_differences(&theirs, &ours);
    // Envoy's tool left the paths of two REST methods at v3, against the policy (V-4).
    let rest = [
        "envoy.service.health.v4alpha.HealthDiscoveryService",
        "envoy.service.status.v4alpha.ClientStatusDiscoveryService",
    ];
    let (rest, others): (Vec<_>, Vec<_>) = differences
        .iter()
        .partition(|one| rest.contains(&one.element.as_str()));
    for one in rest {
        assert!(
            one.only_first.iter().all(|line| line.contains("\"/v3/")),
            "{one}"
        );
        assert!(
            one.only_second.iter().all(|line| line.contains("\"/v4/")),
            "{one}"
        );
    }
    let told: Vec<String> = others.iter().map(ToString::to_string).collect();
    assert!(
        told.is_empty(),
        "{} differences\n{}",
        told.len(),
        told[..told.len().min(40)].join("\n")
    );
}

#[test]
fn v39_generating_again_beside_the_result_changes_nothing() {
    let golden = golden();
    let mut files: Vec<_> = golden
        .iter()
        .filter(|(path, ..)| !is_v4(path))
        .cloned()
        .collect();
    let first = next_major(&read(&files)).files;
    files.extend(
        first
            .iter()
            .map(|file| (file.path.clone(), file.text.clone(), true)),
    );
    let again = next_major(&read(&files)).files;
    let paths = |files: &[Generated]| -> Vec<String> {
        files.iter().map(|file| file.path.clone()).collect()
    };
    assert_eq!(paths(&first), paths(&again));
    for (first, again) in first.iter().zip(&again) {
        assert_eq!(first.text, again.text, "{}", first.path);
    }
}

#[test]
fn the_golden_types_say_what_they_were() {
    let pairs = typemap(&read(&golden()));
    let versions = |old: &str, new: &str| {
        let of = |name: &str, version: &str| name.split('.').any(|part| part == version);
        let between = pairs
            .iter()
            .filter(|pair| of(&pair.old, old) && of(&pair.new, new));
        let messages = between.clone().filter(|pair| pair.message).count();
        (messages, between.filter(|pair| !pair.message).count())
    };
    assert_eq!(
        (versions("v2", "v3"), versions("v3", "v4alpha")),
        ((381, 49), (528, 61))
    );
    let pair = pairs
        .iter()
        .find(|pair| pair.new == "envoy.config.cluster.v3.Cluster")
        .unwrap();
    assert_eq!(pair.old, "envoy.api.v2.Cluster");
    let nested = "envoy.config.cluster.v3.Cluster.DiscoveryType";
    let pair = pairs.iter().find(|pair| pair.new == nested).unwrap();
    assert_eq!(pair.old, "envoy.api.v2.Cluster.DiscoveryType");
}

#[test]
fn v19_promotion_renames_everything_and_freezes_what_was_before() {
    // given the golden tree, all of whose candidates are promoted at once
    let golden = golden();
    let tree = read(&golden);
    let packages: BTreeSet<&str> = tree
        .targets()
        .filter(|file| is_v4(&file.path))
        .map(|file| &*file.package)
        .collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    let promotion = promote(&tree, &packages).unwrap();
    assert_eq!(
        (promotion.packages.len(), promotion.removed.len()),
        (72, 125)
    );
    let url = |name: &str| format!("type.googleapis.com/envoy.config.cluster.{name}.Cluster");
    assert!(promotion.type_urls.contains(&(url("v4alpha"), url("v4"))));
    // when it is written
    let written: BTreeMap<String, String> = promotion
        .files
        .into_iter()
        .map(|file| (file.path, file.text))
        .collect();
    let mut files: Vec<(String, String, bool)> = golden
        .iter()
        .filter(|(path, ..)| !promotion.removed.contains(path) && !written.contains_key(path))
        .cloned()
        .collect();
    files.extend(written.into_iter().map(|(path, text)| (path, text, true)));
    let promoted = read(&files);
    // then no alpha of 4 is left, v3 is frozen where there is a v4, and nothing else changed
    assert!(promoted.files.iter().all(|file| !is_v4(&file.path)));
    let frozen = frozen_by_status(&promoted);
    assert!(frozen.contains("envoy.config.cluster.v3"));
    assert!(!frozen.contains("envoy.config.cluster.v4"));
    let cluster = promoted.message("envoy.config.cluster.v4.Cluster").unwrap();
    let before = tree
        .message("envoy.config.cluster.v4alpha.Cluster")
        .unwrap();
    assert_eq!(cluster.fields.len(), before.fields.len());
    assert_eq!(
        promote(&promoted, &["envoy.config.cluster.v4"]),
        Err(NotPromoted::NoAlpha("envoy.config.cluster.v4".to_owned()))
    );
    assert_eq!(
        promote(&tree, &["a.v1alpha"]),
        Err(NotPromoted::Unknown("a.v1alpha".to_owned()))
    );
}

#[test]
fn v39_files_are_written_once_and_all_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| Generated {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let files = [
        file("a/v2alpha/a.proto", "a"),
        file("a/v2alpha/b.proto", "b"),
    ];
    assert_eq!(differences(folder.path(), &files).len(), 2);
    assert_eq!(write(folder.path(), &files).unwrap().len(), 2);
    assert_eq!(differences(folder.path(), &files), []);
    assert!(write(folder.path(), &files).unwrap().is_empty());
    // A file stands where a folder must be: the other file is not written either.
    let blocked = [
        file("a/v2alpha/a.proto", "new"),
        file("a/v2alpha/b.proto/c.proto", "c"),
    ];
    assert!(write(folder.path(), &blocked).is_err());
    assert_eq!(differences(folder.path(), &files), []);
    // A folder stands where a file must be, which shows only when files are moved into place.
    std::fs::create_dir(folder.path().join("a/v2alpha/c.proto")).unwrap();
    let blocked = [
        file("a/v2alpha/a.proto", "new"),
        file("a/v2alpha/c.proto", "c"),
        file("a/v2alpha/d.proto", "d"),
    ];
    assert!(write(folder.path(), &blocked).is_err());
    assert_eq!(differences(folder.path(), &files), []);
    let left = std::fs::read_dir(folder.path().join("a/v2alpha")).unwrap();
    assert_eq!(left.count(), 3);
}

#[test]
fn v19_promotion_follows_public_imports_and_says_what_it_cannot_freeze() {
    // given a use of what is promoted through a file that passes it on, and stable files of which one
    // has its status in braces and one has none
    let status = r#"import "udpa/annotations/status.proto"; option (udpa.annotations.file_status) = { package_version_status: ACTIVE };"#;
    let files = [
        (
            "a/v1/a.proto".to_owned(),
            format!(r#"syntax = "proto3"; package a.v1; {status}"#),
            true,
        ),
        (
            "b/v1/b.proto".to_owned(),
            r#"syntax = "proto3"; package b.v1;"#.to_owned(),
            true,
        ),
        (
            "a/v2alpha/a.proto".to_owned(),
            r#"syntax = "proto3"; package a.v2alpha; message A {}"#.to_owned(),
            true,
        ),
        (
            "b/v2alpha/b.proto".to_owned(),
            r#"syntax = "proto3"; package b.v2alpha; message B {}"#.to_owned(),
            true,
        ),
        (
            "shim.proto".to_owned(),
            r#"syntax = "proto3"; import public "a/v2alpha/a.proto";"#.to_owned(),
            true,
        ),
        (
            "user.proto".to_owned(),
            r#"syntax = "proto3"; import "shim.proto"; message User { a.v2alpha.A a = 1; }"#
                .to_owned(),
            true,
        ),
        (
            "udpa/annotations/status.proto".to_owned(),
            STATUS.to_owned(),
            false,
        ),
    ];
    let promotion = promote(&read(&files), &["a.v2alpha", "b.v2alpha"]).unwrap();
    assert_eq!(promotion.not_frozen, ["b.v1"]);
    let mut after: Vec<(String, String, bool)> = promotion
        .files
        .into_iter()
        .map(|file| (file.path, file.text, true))
        .collect();
    for (path, text, target) in files {
        let rewritten = after.iter().any(|(other, ..)| *other == path);
        if !rewritten && !promotion.removed.contains(&path) {
            after.push((path, text, target));
        }
    }
    // then the tree compiles, and nobody names the alpha any more
    let tree = read(&after);
    assert!(tree.message("a.v2.A").is_some());
    assert_eq!(
        frozen_by_status(&tree).into_iter().collect::<Vec<_>>(),
        ["a.v1"]
    );
}

/// The annotation that says how far a package is, cut down.
const STATUS: &str = r#"syntax = "proto3"; package udpa.annotations;
    import "google/protobuf/descriptor.proto";
    extend google.protobuf.FileOptions { StatusAnnotation file_status = 222707719; }
    enum PackageVersionStatus { UNKNOWN = 0; FROZEN = 1; ACTIVE = 2; NEXT_MAJOR_VERSION_CANDIDATE = 3; }
    message StatusAnnotation { bool work_in_progress = 1; PackageVersionStatus package_version_status = 2; }"#;

#[test]
fn printed_trees_read_back_as_they_were() {
    let golden = golden();
    let tree = read(&golden);
    let plan = Plan::default();
    let printer = Printer::new(&tree, &plan);
    let printed: Vec<(String, String, bool)> = tree
        .files
        .iter()
        .map(|file| (file.path.to_string(), printer.file(file), file.target))
        .collect();
    let again = read(&printed);
    let (before, after) = (
        Hashes::of(&tree, VERSION_OPTION),
        Hashes::of(&again, VERSION_OPTION),
    );
    for (path, ..) in &golden {
        let (was, is) = (before.file(path).unwrap(), after.file(path).unwrap());
        assert_eq!(was.local, is.local, "{path}");
    }
    // and printing what was printed gives the same text
    let plan = Plan::default();
    let printer = Printer::new(&again, &plan);
    for (path, text, _) in &printed {
        assert!(printer.file(again.file(path).unwrap()) == *text, "{path}");
    }
    assert!(rules::breaking(&Comparison::of(&tree, &again), Profile::Policy).is_empty());
}
