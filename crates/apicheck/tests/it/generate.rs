//! The next major, compared with the output of Envoy's own tool for the same tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;

use flate2::read::GzDecoder;
use oxds_apicheck::compare::Comparison;
use oxds_apicheck::generate::{
    Generated, differences, next_major, promote, structural_differences, typemap, write,
};
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::parse::Text;
use oxds_apicheck::plan::Plan;
use oxds_apicheck::print::Printer;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules;

use crate::support::testdata;

/// Reads the golden tree as `(import path, text, target)`.
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
        .map(|(path, text, target)| {
            let mut text = Text::new(path, text.clone());
            text.target = *target;
            text
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

pub(crate) fn is_v4(path: &str) -> bool {
    path.contains("/v4alpha/")
}

#[test]
fn v38_golden_tree_yields_the_same_packages_and_files() {
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
fn v39_generated_files_equal_the_golden_ones() {
    let golden = golden();
    let source = read(golden.iter().filter(|(path, ..)| !is_v4(path)));
    let next = next_major(&source);
    let made: BTreeMap<String, String> = next
        .files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()))
        .collect();
    // given the golden tree, and the same tree with our files instead of its v4alpha files
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
    // Envoy's tool did not update the paths of two REST methods, which violates the policy (V-4).
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
    let reported: Vec<String> = others.iter().map(ToString::to_string).collect();
    assert!(
        reported.is_empty(),
        "{} differences\n{}",
        reported.len(),
        reported[..reported.len().min(40)].join("\n")
    );
}

#[test]
fn v39_generating_again_changes_nothing() {
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
fn typemap_of_the_golden_tree_has_known_counts() {
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
    // All messages: v3 and v3alpha come from any version, v4alpha comes from these.
    let all = |majors: &[&str]| {
        let of = |name: &str| name.split('.').any(|part| majors.contains(&part));
        let mut found: Vec<_> = pairs.iter().filter(|pair| of(&pair.new)).collect();
        found.retain(|pair| pair.message);
        let both = found.iter().filter(|pair| pair.old_in_tree).count();
        (found.len(), both)
    };
    assert_eq!((all(&["v3"]), all(&["v3alpha"])), ((552, 551), (2, 2)));
    assert_eq!(all(&["v4alpha"]), (538, 538));
    let alone = pairs
        .iter()
        .filter(|pair| pair.message && !pair.old_in_tree);
    let alone: Vec<&str> = alone.map(|pair| &*pair.new).collect();
    assert_eq!(alone, ["envoy.config.accesslog.v3.MetadataFilter"]);
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
fn enum_is_paired_without_its_old_tree() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned(), true);
    let new = file(
        "a/v2/a.proto",
        r#"syntax = "proto3"; package a.v2; import "versioning.proto";
        message M { option (udpa.annotations.versioning).previous_message_type = "a.v1.M";
            enum Inner { I = 0; } enum New { N = 0; } }
        enum Beside { B = 0; }"#,
    );
    let old = file(
        "a/v1/a.proto",
        r#"syntax = "proto3"; package a.v1; message M { enum Inner { I = 0; } } enum Beside { B = 0; }"#,
    );
    let versioning = file(
        "versioning.proto",
        r#"syntax = "proto3"; package udpa.annotations; import "google/protobuf/descriptor.proto";
        message VersioningAnnotation { string previous_message_type = 1; }
        extend google.protobuf.MessageOptions { VersioningAnnotation versioning = 7881811; }"#,
    );
    let enums = |files: &[(String, String, bool)]| -> Vec<(String, bool)> {
        let pairs = typemap(&read(files))
            .into_iter()
            .filter(|pair| !pair.message);
        pairs
            .map(|pair| (format!("{} {}", pair.old, pair.new), pair.old_in_tree))
            .collect()
    };
    let [beside, inner, added] =
        ["Beside", "M.Inner", "M.New"].map(|name| format!("a.v1.{name} a.v2.{name}"));
    // With both trees, an enum that the old one lacks is new. With one tree, that is unknown.
    assert_eq!(
        enums(&[old, new.clone(), versioning.clone()]),
        [(beside.clone(), true), (inner.clone(), true)]
    );
    assert_eq!(
        enums(&[new, versioning]),
        [(beside, false), (inner, false), (added, false)]
    );
}

#[test]
fn v39_files_are_written_atomically() {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| Generated::new(path, text);
    let files = [
        file("a/v2alpha/a.proto", "a"),
        file("a/v2alpha/b.proto", "b"),
    ];
    assert_eq!(differences(folder.path(), &files).len(), 2);
    assert_eq!(write(folder.path(), &files).unwrap().len(), 2);
    assert_eq!(differences(folder.path(), &files), []);
    assert!(write(folder.path(), &files).unwrap().is_empty());
    // A file blocks a folder: the other file is not written either.
    let blocked = [
        file("a/v2alpha/a.proto", "new"),
        file("a/v2alpha/b.proto/c.proto", "c"),
    ];
    assert!(write(folder.path(), &blocked).is_err());
    assert_eq!(differences(folder.path(), &files), []);
    // A folder blocks a file, which is only noticed during the renames.
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
fn printed_golden_tree_reads_back_equal() {
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
        let (earlier, current) = (before.file(path).unwrap(), after.file(path).unwrap());
        assert_eq!(earlier.local, current.local, "{path}");
    }
    // printing the printed tree gives the same text
    let plan = Plan::default();
    let printer = Printer::new(&again, &plan);
    for (path, text, _) in &printed {
        assert!(printer.file(again.file(path).unwrap()) == *text, "{path}");
    }
    assert!(rules::breaking(&Comparison::of(&tree, &again), Profile::Policy).is_empty());
}

#[test]
fn java_packages_of_the_golden_tree_are_equal() {
    // Envoy's tool derives the Java package from the new package; four files moved to another one.
    let golden = golden();
    let theirs = read(&golden);
    let source = read(golden.iter().filter(|(path, ..)| !is_v4(path)));
    let mut files: Vec<_> = golden
        .iter()
        .filter(|(path, ..)| !is_v4(path))
        .cloned()
        .collect();
    let made = next_major(&source).files;
    files.extend(
        made.iter()
            .map(|file| (file.path.clone(), file.text.clone(), true)),
    );
    let ours = read(&files);
    let java = |tree: &Tree, path: &str| {
        let value = tree.file(path).unwrap().options.get("java_package");
        value.unwrap().as_str().unwrap().to_owned()
    };
    for file in &made {
        let (expected, path) = (java(&theirs, &file.path), &file.path);
        assert_eq!(java(&ours, path), expected, "{path}");
    }
}

#[test]
fn language_packages_follow_a_move_and_its_promotion() {
    // given a file that moves to another package in the next major
    let file = |path: &str, text: &str, target| (path.to_owned(), text.to_owned(), target);
    let migrate = file(
        "migrate.proto",
        r#"syntax = "proto3"; package udpa.annotations; import "google/protobuf/descriptor.proto";
        message FileMigrateAnnotation { string move_to_package = 2; }
        extend google.protobuf.FileOptions { FileMigrateAnnotation file_migrate = 171962766; }"#,
        false,
    );
    let source = file(
        "shop/cart/v1/cart.proto",
        r#"syntax = "proto3"; package shop.cart.v1; import "migrate.proto";
        option (udpa.annotations.file_migrate).move_to_package = "shop.basket.v2alpha";
        option go_package = "acme.com/go/shop/cart/v1;cartv1";
        option java_package = "com.acme.shop.cart.v1";
        option csharp_namespace = "Acme.Shop.Cart.V1";
        option ruby_package = "Acme::Shop::Cart::V1";
        option php_namespace = "Acme\\Shop\\Cart\\V1";
        option objc_class_prefix = "ASCV1";
        option swift_prefix = "Shop_Cart_V1_";
        message Cart { string id = 1; }"#,
        true,
    );
    let options = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("option "));
        lines.map(str::to_owned).collect()
    };
    let next = next_major(&read(&[migrate.clone(), source.clone()])).files;
    let [moved] = &next[..] else {
        panic!("{next:?}")
    };
    assert_eq!(moved.path, "shop/basket/v2alpha/cart.proto");
    let expected = |version: &str, csharp: &str, camel: &str, upper: &str| {
        BTreeSet::from([
            format!("go_package = \"acme.com/go/shop/basket/{version};basket{version}\";"),
            format!("java_package = \"com.acme.shop.basket.{version}\";"),
            format!("csharp_namespace = \"Acme.Shop.Basket.{csharp}\";"),
            format!("ruby_package = \"Acme::Shop::Basket::{camel}\";"),
            format!("php_namespace = \"Acme\\\\Shop\\\\Basket\\\\{camel}\";"),
            format!("objc_class_prefix = \"ASC{upper}\";"),
            format!("swift_prefix = \"Shop_Basket_{camel}_\";"),
        ])
    };
    assert_eq!(
        options(&moved.text),
        expected("v2alpha", "V2Alpha", "V2alpha", "V2ALPHA")
    );
    // when the next major is promoted, then all of them have the stable version
    let alpha = (moved.path.clone(), moved.text.clone(), true);
    let tree = read(&[migrate, source, alpha]);
    let promotion = promote(&tree, &["shop.basket.v2alpha"]).unwrap();
    let stable = promotion
        .files
        .iter()
        .find(|file| file.path == "shop/basket/v2/cart.proto")
        .unwrap();
    assert_eq!(options(&stable.text), expected("v2", "V2", "V2", "V2"));
}

#[test]
fn old_references_in_comments_follow_moved_elements() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned(), true);
    let files = [
        file(
            "shop/a/v3/a.proto",
            r#"syntax = "proto3"; package shop.a.v3;
            // See :ref:`B <shop_api_msg_a.v3.B>`, :ref:`shop_api_field_a.v3.B.kept` and
            // :ref:`Z <shop_api_enum_value_a.v3.B.E.ZERO>`, :ref:`shop_v3_api_msg_a.v3.B`,
            // <shop_api_field_a.v3.B.gone>, <shop_api_file_shop/a/v3/a.proto>, <shop_api_msg_Root>,
            // <shop_api_msg_stays.v3.C>, `other`.
            message A { B b = 1; }
            message B { string kept = 1; string gone = 2 [deprecated = true]; enum E { ZERO = 0; } }"#,
        ),
        file(
            "shop/api/v3/root.proto",
            r#"syntax = "proto3"; package shop.api.v3;
            message Root { string old = 1 [deprecated = true]; }"#,
        ),
        file(
            "shop/stays/v3/c.proto",
            r#"syntax = "proto3"; package shop.stays.v3; message C {}"#,
        ),
    ];
    let next = next_major(&read(&files)).files;
    let made = next
        .iter()
        .find(|file| file.path == "shop/a/v4alpha/a.proto")
        .unwrap();
    for line in [
        "// See :ref:`B <shop_api_msg_a.v4alpha.B>`, :ref:`shop_api_field_a.v4alpha.B.kept` and",
        "// :ref:`Z <shop_api_enum_value_a.v4alpha.B.E.ZERO>`, :ref:`shop_v4alpha_api_msg_a.v4alpha.B`,",
        "// <shop_api_field_a.v3.B.gone>, <shop_api_file_shop/a/v4alpha/a.proto>, <shop_api_msg_api.v4alpha.Root>,",
        "// <shop_api_msg_stays.v3.C>, `other`.",
    ] {
        assert!(made.text.contains(line), "{line}\n{}", made.text);
    }
}
