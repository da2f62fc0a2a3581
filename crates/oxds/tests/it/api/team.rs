//! A team that comes from buf: names and keys of buf, links, limits of output, imports.

use std::fs;
use std::path::Path;

use super::{api, commit, edit, git, repository, write};
use crate::support::{command, oxds};

#[test]
fn merged_exception_is_noted_until_the_next_release() {
    let dir = repository();
    edit(dir.path(), "int32 count", "string count");
    let allow = ["--write-allow", "--owner", "shop", "--reason", "unused"];
    api("check", dir.path(), &allow).expect(1, &["FIELD_TYPE_CHANGED"]);
    api("check", dir.path(), &[]).expect(0, &["1 exempt (exception: unused)"]);
    // given the change is merged
    commit(dir.path(), "two", "2021-02-01T00:00:00Z");
    git(dir.path(), &["branch", "-f", "main"]);
    // then the exception is no error
    let note = "note[EXCEPTION_UNUSED] shop.v1.Order.count: matches no finding of FIELD_TYPE_CHANGED any more: remove it after the next release";
    api("check", dir.path(), &[]).expect(0, &[note]);
    // when a release contains the change, then it is
    let ledger = "releases:\n- {version: 1.1.0, date: 2021-03-01}\n";
    write(dir.path(), "oxds-ledger.yaml", ledger);
    let late = "error[EXCEPTION_UNUSED] shop.v1.Order.count: matches no finding of FIELD_TYPE_CHANGED since release 1.1.0";
    api("check", dir.path(), &[]).expect(1, &[late]);
    // An exception with a date may stay until that date.
    let config = dir.path().join("oxds-api.yaml");
    let text = fs::read_to_string(&config).expect("the exceptions");
    fs::write(&config, format!("{text}  expires: 2999-01-01\n")).expect("written");
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
    // A new one that matches nothing is an error at once.
    let new = text.replace("Order.count", "Order.other");
    fs::write(&config, new).expect("written");
    api("check", dir.path(), &[]).expect(1, &["error[EXCEPTION_UNUSED] shop.v1.Order.other"]);
}

#[test]
fn wire_rules_are_selected_by_buf_or_by_flag() {
    let dir = repository();
    edit(dir.path(), "string id", "string key");
    let check = |more: &[&str]| api("check", dir.path(), more);
    check(&[]).expect(1, &["error[FIELD_RENAMED]"]);
    check(&["--wire-only"]).expect(0, &["exempt (not wire format)"]);
    api("breaking", dir.path(), &["--wire-only"]).expect(0, &["1 exempt (not wire format)"]);
    let using = |names: &str| {
        let text = format!("version: v1\nbreaking:\n  use: [{names}]\n");
        write(dir.path(), "buf.yaml", &text);
        check(&[])
    };
    let exempt = "1 exempt (not in breaking.use of buf.yaml)";
    using("WIRE").expect(0, &[exempt]);
    for names in [
        "WIRE_JSON",
        "PACKAGE",
        "FILE",
        "WIRE, FIELD_SAME_NAME",
        "OF_A_PLUGIN",
    ] {
        using(names).expect(1, &["error[FIELD_RENAMED]"]);
    }
    using("FIELD_SAME_TYPE").expect(0, &[exempt]);
    // A change of the wire format counts with each of them.
    edit(dir.path(), "int32 count", "string count");
    using("WIRE").expect(1, &["error[FIELD_TYPE_CHANGED]", "1 breaking"]);
    check(&["--wire-only"]).expect(1, &["error[FIELD_TYPE_CHANGED]"]);
}

#[test]
fn explain_knows_the_rules_of_buf() {
    let ids = "FIELD_SAME_JSON_NAME of buf is: ";
    oxds(["api", "explain", "field_same_json_name"]).expect(
        0,
        &[ids, "FIELD_JSON_NAME_CHANGED\n\n", "FIELD_RENAMED\n\n"],
    );
    oxds(["api", "explain", "FIELD_SAME_NOTHING"]).expect(2, &["unknown rule FIELD_SAME_NOTHING"]);
}

#[test]
fn against_a_branch_name_or_url_is_explained() {
    let dir = repository();
    let against = |other: &str| api("check", dir.path(), &["--against", other]);
    against("main").expect(2, &["main: no such folder", "written .git#ref=main"]);
    against("https://example.com/shop.git#branch=main").expect(
        2,
        &["remote repositories are not read", ".git#ref=origin/BRANCH"],
    );
}

#[test]
fn promote_and_freeze_take_import_folders() {
    let dir = repository();
    let imports = dir.path().join("imports");
    write(
        &imports,
        "dep/v1/dep.proto",
        "syntax = \"proto3\";\n\npackage dep.v1;\n\nmessage Dep {}\n",
    );
    let tree = dir.path().join("tree");
    let alpha = "syntax = \"proto3\";\n\npackage shop.v2alpha;\n\nimport \"dep/v1/dep.proto\";\n\nmessage Order {\n  dep.v1.Dep dep = 1;\n}\n";
    write(&tree, "shop/v2alpha/order.proto", alpha);
    let run = |arguments: &[&str]| {
        let mut command = command(["api"]);
        command.args(arguments).arg("--tree").arg(&tree);
        crate::support::Ran::from(command.output().expect("the binary runs"))
    };
    run(&["promote", "shop.v2alpha"]).expect(3, &["import \"dep/v1/dep.proto\" not found"]);
    let include = imports.to_str().expect("UTF-8");
    run(&["promote", "shop.v2alpha", "-I", include]).expect(0, &["written: shop/v2/order.proto"]);
    run(&["freeze", "shop.v2"]).expect(3, &["not found"]);
    run(&["freeze", "shop.v2", "-I", include]).expect(0, &["shop.v2 is frozen in "]);
    assert!(!imports.join("shop").exists() && tree.join("shop/v2/order.proto").exists());
}

#[test]
fn compile_errors_are_capped_and_plain() {
    let dir = repository();
    let fields: String = (1..=150).map(|n| format!("  Gone f{n} = {n};\n")).collect();
    let text = format!("syntax = \"proto3\";\n\npackage shop.v1;\n\nmessage Many {{\n{fields}}}\n");
    write(dir.path(), "shop/v1/testdata/many.proto", &text);
    let ran = api("lint", dir.path(), &[]);
    ran.expect(
        3,
        &[
            "50 more errors are not listed\n",
            "the proto files do not compile: 150 errors",
            "files below testdata are checked like all others; `--exclude PATH` leaves them out",
        ],
    );
    let listed = ran.stderr.matches(": error: ").count();
    assert_eq!(listed, 100, "{ran:#?}");
    let excluded = api("lint", dir.path(), &["--exclude", "shop/v1/testdata"]);
    excluded.expect(0, &["no findings"]);
    // A file name and a text can contain escape sequences.
    let path = "shop/v1/testdata/many.proto";
    fs::remove_file(dir.path().join(path)).expect("the file");
    let text = "syntax = \"proto3\";\nimport \"\\033[2J.proto\";\n";
    write(dir.path(), "shop/v1/e\u{1b}[31m.proto", text);
    let ran = api("lint", dir.path(), &[]);
    ran.expect(3, &["e\\u{1b}[31m.proto:2:1: error: import "]);
    assert!(!ran.stderr.contains('\u{1b}'), "{ran:#?}");
}

#[cfg(unix)]
#[test]
fn pipes_are_reported_instead_of_read() {
    let dir = repository();
    for name in [
        "shop/v1/pipe.proto",
        "oxds-api.yaml",
        "oxds-ledger.yaml",
        "oxds-api.lock.json",
    ] {
        let pipe = dir.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        api("check", dir.path(), &[]).expect(2, &[name, "not a regular file"]);
        fs::remove_file(&pipe).expect("the pipe");
    }
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
}

#[cfg(unix)]
#[test]
fn linked_folder_is_compared_with_its_commit() {
    let dir = repository();
    let top: &Path = dir.path();
    write(
        top,
        "shared/dep/v1/dep.proto",
        "syntax = \"proto3\";\n\npackage dep.v1;\n\nmessage Dep {\n  string id = 1;\n}\n",
    );
    fs::create_dir(top.join("api")).expect("a folder");
    std::os::unix::fs::symlink("../shared/dep", top.join("api/dep")).expect("a link");
    commit(top, "link", "2021-02-01T00:00:00Z");
    git(top, &["branch", "-f", "main"]);
    api("check", &top.join("api"), &[]).expect(0, &["no findings"]);
    let dep = top.join("shared/dep/v1/dep.proto");
    let text = fs::read_to_string(&dep).expect("the file");
    fs::write(&dep, text.replace("string id", "int32 id")).expect("written");
    let ran = api("check", &top.join("api"), &[]);
    ran.expect(
        1,
        &["api/dep/v1/dep.proto:6:9: error[FIELD_TYPE_CHANGED] dep.v1.Dep.id"],
    );
}
