//! Sources of trees: folders, repositories, descriptor sets, crates.

use std::path::Path;
use std::process::Command;

use oxds_apicheck::input::{Failure, Input, LoadOptions, Revision, Unusable, load, merge_base};
use oxds_apicheck::model::Tree;
use prost::Message as _;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn read(input: &str) -> Result<Tree, Failure> {
    load(&input.parse().unwrap(), &LoadOptions::default())
}

fn targets(tree: &Tree) -> Vec<&str> {
    tree.targets().map(|file| &*file.path).collect()
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const A: &str =
    r#"syntax = "proto3"; package a; import "dep/v1/dep.proto"; message A { dep.v1.Dep dep = 1; }"#;
const DEP: &str = r#"syntax = "proto3"; package dep.v1; message Dep {}"#;
const UNUSED: &str = "this file must not be parsed";

#[test]
fn inputs_parse_and_display_the_same_text() {
    for text in [
        "api",
        ".git#branch=main",
        "api/.git#tag=v1,subdir=proto",
        ".#ref=1a2b3c",
        "crate:envoy-types@0.7.7",
        "crate:data-plane-api@0.1.1#subdir=data-plane-api",
        "set.binpb",
    ] {
        assert_eq!(text.parse::<Input>().unwrap().to_string(), text);
    }
    assert!(matches!("set.binpb".parse(), Ok(Input::Set(_))));
    let wrong = "api#brunch=main".parse::<Input>().unwrap_err().to_string();
    assert_eq!(
        wrong,
        r#"api#brunch=main: unknown part "brunch=main": expected branch=, tag=, ref= or subdir="#
    );
    let wrong = "crate:envoy-types"
        .parse::<Input>()
        .unwrap_err()
        .to_string();
    assert!(wrong.ends_with("crate:NAME@VERSION"), "{wrong}");
}

#[test]
fn dependency_folders_become_import_roots() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[
            ("a.proto", A),
            ("third_party/dep/v1/dep.proto", DEP),
            (".hidden/b.proto", UNUSED),
        ],
    );
    let tree = read(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(targets(&tree), ["dep/v1/dep.proto", "a.proto"]);
    let shown = &tree.file("a.proto").unwrap().display;
    assert_eq!(**shown, *folder.path().join("a.proto").to_str().unwrap());
}

#[test]
fn includes_are_read_on_demand_and_are_not_targets() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[
            ("api/a.proto", A),
            ("inc/dep/v1/dep.proto", DEP),
            ("inc/b.proto", UNUSED),
        ],
    );
    let input = Input::Folder(folder.path().join("api"));
    let mut options = LoadOptions::default();
    options.includes = vec![folder.path().join("inc")];
    let tree = load(&input, &options).unwrap();
    assert_eq!(targets(&tree), ["a.proto"]);
    assert!(tree.message("dep.v1.Dep").is_some());
    let Failure::Compile(errors) = load(&input, &LoadOptions::default()).unwrap_err() else {
        panic!("expected an error without the include")
    };
    assert!(
        errors[0]
            .to_string()
            .ends_with(r#"import "dep/v1/dep.proto" not found"#)
    );
}

#[test]
fn buf_modules_are_import_roots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    write(
        folder.path(),
        &[
            (
                "buf.yaml",
                "version: v2\nmodules:\n  - path: proto\n    excludes: [proto/old]\n  - path: deps\n",
            ),
            ("proto/a.proto", A),
            ("proto/old/b.proto", UNUSED),
            ("deps/dep/v1/dep.proto", DEP),
            ("elsewhere/c.proto", UNUSED),
        ],
    );
    assert_eq!(
        targets(&read(path).unwrap()),
        ["dep/v1/dep.proto", "a.proto"]
    );
    write(
        folder.path(),
        &[(
            "buf.yaml",
            "version: v1\nbuild:\n  excludes: [proto/old, elsewhere, deps]\n",
        )],
    );
    let tree = read(path);
    let Err(Failure::Compile(errors)) = tree else {
        panic!("{tree:?}")
    };
    assert!(
        errors[0].to_string().contains("dep/v1/dep.proto"),
        "no root is guessed: {errors:?}"
    );
    write(folder.path(), &[("buf.yaml", "version: v2\nmodules: 3\n")]);
    let wrong = read(path).unwrap_err().to_string();
    assert!(wrong.contains("buf.yaml:2:"), "{wrong}");
}

#[test]
fn commit_is_read_without_a_checkout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    git(path, &["init", "-q"]);
    write(path, &[("api/a.proto", A), ("deps/dep/v1/dep.proto", DEP)]);
    git(path, &["add", "."]);
    git(path, &["commit", "-qm", "one"]);
    git(path, &["tag", "v1"]);
    git(path, &["checkout", "-qb", "change"]);
    write(path, &[("api/a.proto", "broken")]);

    let base = merge_base(&path.join("api")).unwrap();
    assert!(
        base.description.ends_with(" of HEAD and main"),
        "{}",
        base.description
    );
    for input in [
        format!("{}#tag=v1,subdir=api", path.display()),
        format!("{}#branch=main,subdir=api", path.join(".git").display()),
        base.input.to_string(),
    ] {
        let tree = read(&input).unwrap();
        assert_eq!(targets(&tree), ["a.proto"], "{input}");
        assert!(
            tree.file("a.proto")
                .unwrap()
                .display
                .ends_with(":api/a.proto")
        );
    }

    let input = Input::Git {
        repository: path.to_owned(),
        revision: Revision::Branch("gone".to_owned()),
        subdir: None,
    };
    let wrong = load(&input, &LoadOptions::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        wrong,
        format!("{}: unknown revision branch=gone", path.display())
    );
    let shallow = tempfile::tempdir().unwrap();
    let url = format!("file://{}", path.display());
    git(shallow.path(), &["clone", "-q", "--depth=1", &url, "clone"]);
    let input = format!("{}#ref=v0", shallow.path().join("clone").display());
    let wrong = read(&input).unwrap_err().to_string();
    assert!(
        wrong.ends_with(
            "`git fetch --unshallow` fetches the rest (actions/checkout: `fetch-depth: 0`)"
        ),
        "{wrong}"
    );
    let outside = tempfile::tempdir().unwrap();
    let wrong = read(&format!("{}#ref=HEAD", outside.path().display())).unwrap_err();
    assert!(
        matches!(wrong, Failure::Unusable(Unusable::Git { .. })),
        "{wrong}"
    );
}

#[test]
fn crate_is_read_from_cargos_home() {
    let tree = read("crate:envoy-types@0.7.7#subdir=proto/data-plane-api").unwrap();
    let cluster = tree.message("envoy.config.cluster.v3.Cluster").unwrap();
    assert_eq!(
        &*tree[cluster.file].path,
        "envoy/config/cluster/v3/cluster.proto"
    );
    assert!(tree.targets().all(|file| file.path.starts_with("envoy/")));
    assert!(tree.message("udpa.annotations.StatusAnnotation").is_some());
    let wrong = read("crate:envoy-types@0.0.0").unwrap_err().to_string();
    assert!(
        wrong.contains("`cargo add envoy-types@=0.0.0 && cargo fetch`"),
        "{wrong}"
    );
}

#[test]
fn descriptor_set_keeps_unknown_custom_options() {
    // given a descriptor set of two files, made by another library
    let mut pool = prost_reflect::DescriptorPool::global();
    for (name, text) in [
        (
            "opts.proto",
            "import 'google/protobuf/descriptor.proto'; extend google.protobuf.FieldOptions { optional int32 limit = 50000; }",
        ),
        (
            "a.proto",
            "syntax = 'proto3'; package a; import 'opts.proto'; message A { string x = 1 [(limit) = 7, deprecated = true]; map<string, int32> m = 2; }",
        ),
    ] {
        pool.add_file_descriptor_proto(protox_parse::parse(name, text).unwrap())
            .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.binpb");
    let set = pool.encode_to_vec();
    std::fs::write(&path, &set).unwrap();
    let tree = read(path.to_str().unwrap()).unwrap();
    let options = &tree.message("a.A").unwrap().fields[0].options;
    assert_eq!(
        options
            .extension("limit")
            .and_then(prost_reflect::Value::as_i32),
        Some(7)
    );
    assert!(options.deprecated());
    assert_eq!(targets(&tree), ["opts.proto", "a.proto"]);

    std::fs::write(&path, &set[..set.len() / 2]).unwrap();
    let wrong = read(path.to_str().unwrap()).unwrap_err();
    assert!(
        matches!(wrong, Failure::Unusable(Unusable::BrokenSet { .. })),
        "{wrong}"
    );
    std::fs::write(
        &path,
        prost_types::FileDescriptorSet::default().encode_to_vec(),
    )
    .unwrap();
    let wrong = read(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(wrong.ends_with("it contains no file"), "{wrong}");
}

#[test]
fn empty_or_missing_input_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(
        read(path).unwrap_err().to_string(),
        format!("no .proto file in {path}")
    );
    let gone = folder.path().join("gone");
    let wrong = read(gone.to_str().unwrap()).unwrap_err();
    assert!(
        matches!(wrong, Failure::Unusable(Unusable::Unreadable { .. })),
        "{wrong}"
    );
    let mut only = LoadOptions::default();
    only.paths = vec!["b".to_owned()];
    write(folder.path(), &[("a/a.proto", DEP)]);
    assert!(load(&Input::Folder(folder.path().to_owned()), &only).is_err());
}

#[test]
fn branch_names_and_urls_are_explained() {
    for remote in [
        "https://example.com/api.git#branch=main",
        "git@example.com:api.git",
    ] {
        let wrong = remote.parse::<Input>().unwrap_err().to_string();
        assert!(wrong.starts_with(remote), "{wrong}");
        assert!(wrong.ends_with("write .git#ref=origin/BRANCH"), "{wrong}");
    }
    let wrong = read("no-such-branch").unwrap_err().to_string();
    assert_eq!(
        wrong,
        "no-such-branch: no such folder; a commit of a repository is written .git#ref=no-such-branch"
    );
}

#[test]
fn shallow_checkout_without_default_branch_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let origin = folder.path().join("origin");
    std::fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q"]);
    write(&origin, &[("a/a.proto", DEP)]);
    git(&origin, &["add", "."]);
    git(&origin, &["commit", "-qm", "one"]);
    git(&origin, &["update-ref", "refs/pull/1/merge", "HEAD"]);
    // As `actions/checkout` does for a pull request: one commit, no branch.
    let clone = folder.path().join("clone");
    std::fs::create_dir(&clone).unwrap();
    git(&clone, &["init", "-q"]);
    let url = format!("file://{}", origin.display());
    git(
        &clone,
        &["fetch", "-q", "--depth=1", &url, "refs/pull/1/merge"],
    );
    git(&clone, &["checkout", "-q", "--detach", "FETCH_HEAD"]);
    // An unborn branch has the usual name, but no commit.
    let wrong = merge_base(&clone).unwrap_err().to_string();
    assert!(wrong.contains("default branch"), "{wrong}");
    assert!(wrong.contains("`fetch-depth: 0`"), "{wrong}");
}

#[cfg(unix)]
#[test]
fn links_to_folders_outside_are_followed_everywhere() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    git(path, &["init", "-q"]);
    write(
        path,
        &[("api/a.proto", A), ("shared/dep/v1/dep.proto", DEP)],
    );
    symlink("../shared/dep", path.join("api/dep")).unwrap();
    // Links to the tree itself are listed at their own place; links of Bazel lead to copies.
    symlink(".", path.join("api/self")).unwrap();
    symlink("../shared", path.join("api/bazel-out")).unwrap();
    git(path, &["add", "."]);
    git(path, &["commit", "-qm", "one"]);
    let api = path.join("api");
    let commit = format!("{}#ref=HEAD,subdir=api", path.display());
    let expected = ["dep/v1/dep.proto", "a.proto"];
    assert_eq!(targets(&read(api.to_str().unwrap()).unwrap()), expected);
    assert_eq!(targets(&read(&commit).unwrap()), expected);
    // At the top, the target of the link is part of the tree, and found there.
    let tree = read(path.to_str().unwrap()).unwrap();
    assert_eq!(tree.targets().count(), 2);
    // A cycle of links outside ends.
    symlink("..", path.join("shared/dep/v1/up")).unwrap();
    assert_eq!(targets(&read(api.to_str().unwrap()).unwrap()), expected);
}

#[test]
fn files_ignored_by_git_are_imports_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    git(path, &["init", "-q"]);
    write(
        path,
        &[
            (".gitignore", "build/\nscratch.proto\n"),
            ("a.proto", A),
            ("build/dep/v1/dep.proto", DEP),
            ("build/copy.proto", UNUSED),
            ("scratch.proto", UNUSED),
        ],
    );
    let tree = read(path.to_str().unwrap()).unwrap();
    assert_eq!(targets(&tree), ["a.proto"]);
    assert!(tree.message("dep.v1.Dep").is_some());
    let mut named = LoadOptions::default();
    named.paths = vec!["scratch.proto".to_owned()];
    let named = load(&Input::Folder(path.to_owned()), &named);
    assert!(matches!(named, Err(Failure::Compile(_))), "{named:?}");
    std::fs::remove_file(path.join("a.proto")).unwrap();
    let wrong = read(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(
        wrong.ends_with("; git ignores the files there, --path PATH checks them"),
        "{wrong}"
    );
}

#[cfg(unix)]
#[test]
fn pipe_in_the_tree_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("a.proto", DEP)]);
    let pipe = folder.path().join("pipe.proto");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let wrong = read(folder.path().to_str().unwrap())
        .unwrap_err()
        .to_string();
    assert_eq!(wrong, format!("{}: not a regular file", pipe.display()));
}
