//! File versions, frozen packages, and the version of a whole tree.

use std::path::Path;

use oxds_apicheck::bump::{
    Class, LOCK_FILE, Lock, Problem, UnknownPackage, Versions, apply, bumps, edits, freeze, ranges,
    stale, suggest,
};
use oxds_apicheck::compare::Comparison;
use oxds_apicheck::finding::Finding;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules::{self, versions};
use semver::Version;

use crate::support::{Versioned, one, tree};

const PATH: &str = "shop/v1/case.proto";

/// Text of a `shop.v1` file with its version in the file option.
fn file(version: &str, body: &str) -> String {
    format!(
        "syntax = \"proto3\";\npackage shop.v1;\nimport \"oxds/annotations/version.proto\";\n\
         option (oxds.annotations.version) = \"{version}\";\nmessage Order {{ {body} }}\n"
    )
}

/// Tree without versions, for a lock.
fn plain(body: &str) -> Tree {
    one(&format!(
        "syntax = \"proto3\";\npackage shop.v1;\nmessage Order {{ {body} }}"
    ))
}

fn breaking(old: &Tree, new: &Tree) -> Vec<Finding> {
    rules::breaking(&Comparison::of(old, new), Profile::Policy)
}

#[test]
fn v22_edit_changes_only_the_version_and_fixes_the_check() {
    // given a file with a new field and the old version
    let old = one(&file("1.2.3", "string id = 1;"));
    let text = file("1.2.3", "string id = 1; string note = 2;");
    let new = one(&text);
    let (before, after) = (Versioned::of(&old), Versioned::of(&new));
    let found = bumps(before.side(), after.side(), &breaking(&old, &new));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, PATH);
    assert_eq!(found[0].to, Some(Version::new(1, 3, 0)));
    assert!(matches!(
        found[0].problem,
        Problem::Missing {
            class: Class::Minor,
            ..
        }
    ));
    // when the edit is applied
    let mut lock = Lock::default();
    let edits = edits(&new, &after.hashes, &found, VERSION_OPTION, &mut lock).unwrap();
    let fixed = apply(&text, &edits);
    // then only the version differs, and the check passes
    assert_eq!(fixed, file("1.3.0", "string id = 1; string note = 2;"));
    let fixed = one(&fixed);
    let after = Versioned::of(&fixed);
    assert_eq!(bumps(before.side(), after.side(), &[]), []);
    assert_eq!(lock, Lock::default());
}

#[test]
fn v22_lock_holds_versions_of_unedited_trees() {
    // given a tree without options, with a lock from `bump --fix`
    let old = plain("string id = 1;");
    let mut lock = Lock::default();
    lock.files.insert(
        PATH.to_owned(),
        oxds_apicheck::bump::LockedFile::new(
            Version::new(1, 0, 0),
            Hashes::of(&old, VERSION_OPTION).file(PATH).unwrap().local,
        ),
    );
    let before = Versioned::with(&old, Some(&lock));
    // when a field is added, the lock still has the old version
    let new = plain("string id = 1; string note = 2;");
    let after = Versioned::with(&new, Some(&lock));
    let found = bumps(before.side(), after.side(), &breaking(&old, &new));
    assert_eq!(found[0].to, Some(Version::new(1, 1, 0)));
    let mut fixed = lock.clone();
    let texts = edits(&new, &after.hashes, &found, VERSION_OPTION, &mut fixed).unwrap();
    assert_eq!(texts, []);
    let after = Versioned::with(&new, Some(&fixed));
    assert_eq!(bumps(before.side(), after.side(), &[]), []);
    assert_eq!(stale(after.side(), &fixed, &[]), []);
    // and when the file changes again under its new version, the lock is stale
    let again = plain("string id = 1; string note = 2; string more = 3;");
    let after = Versioned::with(&again, Some(&fixed));
    let found = stale(after.side(), &fixed, &[]);
    assert_eq!(found[0].problem, Problem::Stale);
    edits(&again, &after.hashes, &found, VERSION_OPTION, &mut fixed).unwrap();
    assert_eq!(stale(after.side(), &fixed, &[]), []);
}

#[test]
fn v22_breaking_change_of_a_stable_file_has_no_version() {
    let old = one(&file("1.2.0", "string id = 1;"));
    let new = one(&file("2.0.0", "int32 id = 1;"));
    let (before, after) = (Versioned::of(&old), Versioned::of(&new));
    let found = bumps(before.side(), after.side(), &breaking(&old, &new));
    assert_eq!(
        found[0].problem,
        Problem::NewMajor {
            earlier: Version::new(1, 2, 0)
        }
    );
    assert_eq!(found[0].to, None);
}

#[test]
fn v22_malformed_or_missing_version_is_reported() {
    let old = one(&file("1.2.0", "string id = 1;"));
    let new = one(&file("1.2", "string id = 1;"));
    let (before, after) = (Versioned::of(&old), Versioned::of(&new));
    let found = versions::find(before.side(), after.side(), None, &[]);
    assert_eq!(
        found[0].message,
        "malformed version `1.2`: expected major.minor.patch"
    );
    let gone = plain("string id = 1;");
    let after = Versioned::of(&gone);
    let found = versions::find(before.side(), after.side(), None, &[]);
    assert_eq!(found[0].rule.id, "FILE_VERSION_NOT_BUMPED");
    // A tree without versions needs none.
    let before = Versioned::of(&gone);
    assert!(versions::find(before.side(), after.side(), None, &[]).is_empty());
}

#[test]
fn v14_frozen_package_may_only_change_comments() {
    let tree = plain("string id = 1;");
    let hashes = Hashes::of(&tree, VERSION_OPTION);
    let mut lock = Lock::default();
    assert_eq!(
        freeze(&hashes, &["shop.v1", "shop.v9"], &mut lock),
        Err(UnknownPackage("shop.v9".to_owned()))
    );
    assert_eq!(lock, Lock::default());
    assert_eq!(freeze(&hashes, &["shop.v1"], &mut lock), Ok(vec![]));
    let reported = |new: &Tree| {
        let (before, after) = (Versioned::of(&tree), Versioned::of(new));
        versions::frozen(before.side(), after.side(), Some(&lock)).len()
    };
    assert_eq!(reported(&plain("/* the number */ string id = 1;")), 0);
    assert_eq!(reported(&plain("string id = 1; string note = 2;")), 1);
    // A second freeze hides no change.
    let changed = Hashes::of(&plain("string id = 2;"), VERSION_OPTION);
    let mut again = lock.clone();
    let changes = freeze(&changed, &["shop.v1"], &mut again).unwrap();
    assert_eq!(changes[0].package, "shop.v1");
    assert_eq!(again, lock);
}

#[test]
fn v21_written_lock_reads_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOCK_FILE);
    assert_eq!(Lock::read(&path), Ok(None));
    let mut lock = Lock::default();
    let tree = plain("string id = 1;");
    freeze(&Hashes::of(&tree, VERSION_OPTION), &["shop.v1"], &mut lock).unwrap();
    lock.write(&path).unwrap();
    assert_eq!(Lock::read(&path), Ok(Some(lock)));
    assert!(
        Lock::parse("{", Path::new("l"))
            .unwrap_err()
            .to_string()
            .starts_with("l:1:")
    );
}

#[test]
fn suggest_version_follows_the_largest_change() {
    let old = plain("string id = 1;");
    let answer = |new: &Tree, current: Version| {
        let (before, after) = (Versioned::of(&old), Versioned::of(new));
        let findings = breaking(&old, new);
        let sides = ((&old, &before.hashes), (new, &after.hashes));
        suggest(sides.0, sides.1, &findings, Some(&current)).next
    };
    let (zero, three) = (Version::new(0, 4, 1), Version::new(3, 4, 1));
    let same = plain("/* a */ string id = 1;");
    assert_eq!(answer(&same, three.clone()), None);
    let marked = plain("string id = 1 [deprecated = true];");
    assert_eq!(answer(&marked, three.clone()), Some(Version::new(3, 4, 2)));
    let grown = plain("string id = 1; int32 note = 2;");
    assert_eq!(answer(&grown, three.clone()), Some(Version::new(3, 5, 0)));
    assert_eq!(answer(&grown, zero.clone()), Some(Version::new(0, 4, 2)));
    let broken = plain("int32 id = 1;");
    assert_eq!(answer(&broken, three), Some(Version::new(4, 0, 0)));
    assert_eq!(answer(&broken, zero), Some(Version::new(0, 5, 0)));
}

#[test]
fn v26_root_has_the_version_range_of_its_files() {
    let annotation = "syntax = \"proto3\"; package envoy.annotations;
        import \"google/protobuf/descriptor.proto\";
        extend google.protobuf.ServiceOptions { ResourceAnnotation resource = 265073217; }
        message ResourceAnnotation { string type = 1; }";
    let service = "syntax = \"proto3\"; package shop.v1;
        import \"envoy/annotations/resource.proto\"; import \"shop/v1/order.proto\";
        service Orders { option (envoy.annotations.resource).type = \"shop.v1.Order\"; }";
    let order = "syntax = \"proto3\"; package shop.v1;
        import \"oxds/annotations/version.proto\"; import \"shop/v1/price.proto\";
        option (oxds.annotations.version) = \"1.4.0\"; message Order { Price price = 1; }";
    let price = "syntax = \"proto3\"; package shop.v1; import \"oxds/annotations/version.proto\";
        option (oxds.annotations.version) = \"1.2.0\"; message Price {}";
    let tree = tree(&[
        ("envoy/annotations/resource.proto", annotation),
        ("shop/v1/service.proto", service),
        ("shop/v1/order.proto", order),
        ("shop/v1/price.proto", price),
    ]);
    let ranges = ranges(&tree, &Versions::of(&tree, VERSION_OPTION, None));
    assert_eq!(ranges.len(), 1);
    assert_eq!(ranges[0].root, "shop.v1.Order");
    assert_eq!(ranges[0].oldest, Version::new(1, 2, 0));
    assert_eq!(ranges[0].latest, Version::new(1, 4, 0));
    assert_eq!(ranges[0].files, 2);
}
