//! Promotion of an alpha to the stable major (V-19).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use oxds_apicheck::bump::frozen_by_status;
use oxds_apicheck::generate::{Generated, PromoteError, apply, next_major, promote, write};
use oxds_apicheck::input::{self, Input, LoadOptions};

use crate::generate::{golden, is_v4, read};
use crate::support::files_below;

#[test]
fn v19_promotion_renames_all_uses_and_freezes_the_old_major() {
    // given the golden tree, with all candidates promoted at once
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
    // when the files are written
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
    // then no v4alpha is left, v3 is frozen where there is a v4, and nothing else changed
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
        Err(PromoteError::NoAlpha("envoy.config.cluster.v4".to_owned()))
    );
    assert_eq!(
        promote(&tree, &["a.v1alpha"]),
        Err(PromoteError::Unknown("a.v1alpha".to_owned()))
    );
}

#[test]
fn v19_promotion_follows_public_imports() {
    // given a use of a promoted type through a public import, and stable files of which one has its
    // status in braces and one has no status
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
    // then the tree compiles, and no file uses the alpha
    let tree = read(&after);
    assert!(tree.message("a.v2.A").is_some());
    assert_eq!(
        frozen_by_status(&tree).into_iter().collect::<Vec<_>>(),
        ["a.v1"]
    );
}

/// Reduced copy of the annotation with the package status.
const STATUS: &str = r#"syntax = "proto3"; package udpa.annotations;
    import "google/protobuf/descriptor.proto";
    extend google.protobuf.FileOptions { StatusAnnotation file_status = 222707719; }
    enum PackageVersionStatus { UNKNOWN = 0; FROZEN = 1; ACTIVE = 2; NEXT_MAJOR_VERSION_CANDIDATE = 3; }
    message StatusAnnotation { bool work_in_progress = 1; PackageVersionStatus package_version_status = 2; }"#;

#[test]
fn v19_newest_previous_major_is_frozen_despite_a_gap() {
    let file = |package: &str, status: &str| {
        (
            format!("{}/a.proto", package.replace('.', "/")),
            format!(
                r#"syntax = "proto3"; package {package}; import "udpa/annotations/status.proto";
                option (udpa.annotations.file_status).package_version_status = {status}; message A {{}}"#
            ),
            true,
        )
    };
    let files = [
        file("a.v1", "FROZEN"),
        file("a.v2", "ACTIVE"),
        file("a.v2alpha", "ACTIVE"),
        file("a.v4alpha", "NEXT_MAJOR_VERSION_CANDIDATE"),
        (
            "udpa/annotations/status.proto".to_owned(),
            STATUS.to_owned(),
            false,
        ),
    ];
    let promotion = promote(&read(&files), &["a.v4alpha"]).unwrap();
    let paths: Vec<&str> = promotion.files.iter().map(|file| &*file.path).collect();
    assert_eq!(paths, ["a/v2/a.proto", "a/v4/a.proto"]);
    assert!(promotion.files[0].text.contains("= FROZEN"));
    assert_eq!(promotion.not_frozen, Vec::<String>::new());
}

#[test]
fn v19_v39_generated_files_stay_in_their_module() {
    // given a buf tree whose modules are folders
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "buf.yaml",
        "version: v2\nmodules:\n- path: proto\n- path: more/proto\n",
    );
    put(
        "proto/shop/v1/shop.proto",
        r#"syntax = "proto3"; package shop.v1; import "stock/v1/stock.proto";
        message Shop { stock.v1.Item item = 1; }"#,
    );
    put(
        "more/proto/stock/v1/stock.proto",
        r#"syntax = "proto3"; package stock.v1; message Item { string old = 1 [deprecated = true]; }"#,
    );
    let load = || {
        input::load(
            &Input::Folder(folder.path().into()),
            &LoadOptions::default(),
        )
        .unwrap()
    };
    let paths = || -> Vec<String> {
        let files = files_below(folder.path()).into_iter();
        files
            .map(|(path, _)| path)
            .filter(|path| path.ends_with(".proto"))
            .collect()
    };
    // when the next major is written, then each file is in the module of its source
    write(folder.path(), &next_major(&load()).files).unwrap();
    let alphas = [
        "more/proto/stock/v1/stock.proto",
        "more/proto/stock/v2alpha/stock.proto",
        "proto/shop/v1/shop.proto",
        "proto/shop/v2alpha/shop.proto",
    ];
    assert_eq!(paths(), alphas);
    assert!(
        write(folder.path(), &next_major(&load()).files)
            .unwrap()
            .is_empty()
    );
    // and so it is after the promotion
    let promotion = promote(&load(), &["shop.v2alpha", "stock.v2alpha"]).unwrap();
    apply(folder.path(), &promotion.files, &promotion.removed).unwrap();
    assert_eq!(paths(), alphas.map(|path| path.replace("v2alpha", "v2")));
    assert!(!folder.path().join("proto/shop/v2alpha").exists());
    assert!(load().message("shop.v2.Shop").is_some());
}

#[test]
fn v19_failed_promotion_changes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str, text: &str| Generated::new(path, text);
    let before = [
        file("a/v2alpha/a.proto", "a"),
        file("a/v2alpha/b.proto", "b"),
    ];
    write(folder.path(), &before).unwrap();
    let after = [file("a/v2/a.proto", "a2"), file("a/v2/b.proto", "b2")];
    let there = || files_below(folder.path());
    let whole = there();
    // One file to remove does not exist; the other cannot be removed, which is only noticed later.
    fs::create_dir(folder.path().join("a/v2alpha/folder.proto")).unwrap();
    for stays in ["a/v2alpha/none.proto", "a/v2alpha/folder.proto"] {
        let removed = ["a/v2alpha/a.proto", "a/v2alpha/b.proto", stays].map(str::to_owned);
        assert!(apply(folder.path(), &after, &removed).is_err());
        assert_eq!(there(), whole);
    }
    fs::remove_dir(folder.path().join("a/v2alpha/folder.proto")).unwrap();
    let removed = ["a/v2alpha/a.proto", "a/v2alpha/b.proto"].map(str::to_owned);
    assert_eq!(apply(folder.path(), &after, &removed).unwrap().len(), 2);
    let paths: Vec<String> = there().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["a/v2/a.proto", "a/v2/b.proto"]);
    assert!(!folder.path().join("a/v2alpha").exists());
}
