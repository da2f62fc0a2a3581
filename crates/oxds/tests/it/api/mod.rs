//! `oxds api` in a team's workflow: a repository, a branch, a change.

mod except;
mod golden;
mod stories;
mod team;
mod translate;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Ran, folder, oxds};

const ORDER: &str = "syntax = \"proto3\";\n\npackage shop.v1;\n\nmessage Order {\n  string id = 1;\n  int32 count = 2;\n}\n";

pub(crate) fn git(dir: &Path, arguments: &[&str]) {
    let git = Command::new("git")
        .arg("-C")
        .arg(dir)
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
        .expect("git runs");
    assert!(git.status.success(), "{git:?}");
}

/// Creates a repository with `ORDER` on main, and an unchanged branch.
fn repository() -> tempfile::TempDir {
    let dir = folder(&[("shop/v1/order.proto", ORDER)]);
    git(dir.path(), &["init", "-q"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-qm", "one"]);
    git(dir.path(), &["checkout", "-qb", "change"]);
    dir
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

pub(crate) fn commit(dir: &Path, message: &str, date: &str) {
    git(dir, &["add", "."]);
    // The date of the commit matters, and only the environment can set it.
    let git = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm"])
        .arg(message)
        .env("GIT_COMMITTER_DATE", date)
        .output()
        .expect("git runs");
    assert!(git.status.success(), "{git:?}");
}

fn edit(dir: &Path, from: &str, to: &str) {
    let path = dir.join("shop/v1/order.proto");
    let text = fs::read_to_string(&path)
        .expect("the file")
        .replace(from, to);
    fs::write(path, text).expect("the file");
}

fn api(command: &str, dir: &Path, more: &[&str]) -> Ran {
    let dir = dir.to_str().expect("UTF-8");
    oxds([&["api", command, dir], more].concat())
}

#[test]
fn v62_check_without_configuration_compares_the_branch() {
    let dir = repository();
    let clean = api("check", dir.path(), &[]);
    clean.expect(
        0,
        &["no findings: ", " against merge base ", " of HEAD and main"],
    );
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
    edit(dir.path(), "int32 count", "string count");
    let ran = api("check", dir.path(), &[]);
    ran.expect(
        1,
        &[
            "error[FIELD_TYPE_CHANGED] shop.v1.Order.count: ",
            "1 breaking: ",
        ],
    );
    let first = ran.stdout.lines().next().unwrap_or_default();
    let path = dir.path().join("shop/v1/order.proto:7:10: ");
    assert!(first.starts_with(&*path.to_string_lossy()), "{first}");
}

#[test]
fn write_allow_adds_exceptions_and_unused_ones_fail() {
    let dir = repository();
    edit(dir.path(), "int32 count", "string count");
    api("check", dir.path(), &["--write-allow"]).expect(2, &["--owner"]);
    let written = ["--write-allow", "--owner", "shop", "--reason", "not used"];
    api("check", dir.path(), &written).expect(1, &["FIELD_TYPE_CHANGED"]);
    api("check", dir.path(), &[]).expect(0, &["1 exempt (exception: not used)"]);
    api("breaking", dir.path(), &[]).expect(0, &["1 exempt"]);
    edit(dir.path(), "string count", "int32 count");
    api("check", dir.path(), &[]).expect(1, &["oxds-api.yaml:2:3: error[EXCEPTION_UNUSED]"]);
    fs::write(dir.path().join("oxds-api.yaml"), "alow: []\n").expect("the file");
    api("check", dir.path(), &[]).expect(2, &["oxds-api.yaml:1:1: "]);
}

#[test]
fn v22_bump_fix_writes_the_required_versions() {
    let dir = repository();
    let lock = |version: &str| {
        let hash = api("hash", dir.path(), &[]).stdout;
        let hash = hash.split(' ').next().unwrap_or_default().to_owned();
        format!(
            "{{\"form\":1,\"files\":{{\"shop/v1/order.proto\":{{\"version\":\"{version}\",\"hash\":\"{hash}\"}}}}}}"
        )
    };
    fs::write(dir.path().join("oxds-api.lock.json"), lock("1.2.0")).expect("the file");
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-qm", "lock"]);
    git(dir.path(), &["branch", "-f", "main"]);
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    api("check", dir.path(), &[]).expect(1, &["error[FILE_VERSION_NOT_BUMPED]", "1.3.0"]);
    api("bump", dir.path(), &[]).expect(1, &["the version is still 1.2.0"]);
    api("bump", dir.path(), &["--fix"]).expect(0, &["shop/v1/order.proto: 1.3.0"]);
    api("bump", dir.path(), &[]).expect(0, &["no findings"]);
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
    api("suggest-version", dir.path(), &["--current", "1.9.1"]).expect(0, &["1.10.0", "1 minor"]);
}

#[test]
fn v21_bump_init_writes_first_versions() {
    let dir = repository();
    api("bump", dir.path(), &["--fix"]).expect(0, &[]);
    assert!(!dir.path().join("oxds-api.lock.json").exists());
    api("bump", dir.path(), &["--fix", "--init"]).expect(0, &["shop/v1/order.proto: 1.0.0"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-qm", "versions"]);
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    let head = format!("{}/.git#ref=HEAD", dir.path().display());
    api("check", dir.path(), &["--against", &head]).expect(1, &["FILE_VERSION_NOT_BUMPED"]);
}

#[test]
fn new_folder_on_a_branch_has_no_findings() {
    let dir = repository();
    let new = dir.path().join("api/box/v1");
    fs::create_dir_all(&new).expect("a folder");
    let text = "syntax = \"proto3\";\n\npackage box.v1;\n\nmessage Box {}\n";
    fs::write(new.join("box.proto"), text).expect("a file");
    api("check", &dir.path().join("api"), &[]).expect(0, &["no findings"]);
}

#[test]
fn v14_change_of_a_frozen_package_fails_check() {
    let dir = repository();
    let tree = dir.path().to_str().expect("UTF-8");
    oxds(["api", "freeze", "shop.v2", "--tree", tree]).expect(2, &["unknown package `shop.v2`"]);
    oxds(["api", "freeze", "shop.v1", "--tree", tree]).expect(0, &["shop.v1 is frozen in "]);
    api("check", dir.path(), &[]).expect(0, &[]);
    edit(dir.path(), "message", "// A comment.\nmessage");
    api("check", dir.path(), &[]).expect(0, &[]);
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    api("check", dir.path(), &[]).expect(1, &["error[FROZEN_PACKAGE_CHANGED] shop.v1: "]);
}

#[test]
fn frozen_package_is_no_active_major_in_lint() {
    let dir = repository();
    for version in ["v2", "v3"] {
        let folder = dir.path().join("shop").join(version);
        fs::create_dir_all(&folder).expect("a folder");
        let text = ORDER.replace("shop.v1", &format!("shop.{version}"));
        fs::write(folder.join("order.proto"), text).expect("a file");
    }
    api("lint", dir.path(), &[]).expect(1, &["error[TOO_MANY_MAJORS] shop.v1: "]);
    let tree = dir.path().to_str().expect("UTF-8");
    oxds(["api", "freeze", "shop.v1", "--tree", tree]).expect(0, &[]);
    api("lint", dir.path(), &[]).expect(0, &["no findings"]);
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
}

#[test]
fn v39_next_major_is_written_beside_its_source() {
    let dir = repository();
    edit(dir.path(), "count = 2;", "count = 2 [deprecated = true];");
    api("next-major", dir.path(), &["--why"])
        .expect(0, &["shop.v1.Order has deprecated member count"]);
    api("next-major", dir.path(), &["--check"]).expect(1, &["order.proto is missing"]);
    api("next-major", dir.path(), &[]).expect(0, &["1 files of 1 packages, 1 written"]);
    let made = fs::read_to_string(dir.path().join("shop/v2alpha/order.proto")).expect("the file");
    assert!(made.contains("package shop.v2alpha;"), "{made}");
    assert!(
        made.contains("reserved 2;\n  reserved \"count\";"),
        "{made}"
    );
    api("next-major", dir.path(), &["--check"]).expect(0, &[]);
    api("next-major", dir.path(), &[]).expect(0, &["1 files of 1 packages, 0 written"]);
    api("typemap", dir.path(), &["--format", "json"]).expect(0, &["[]"]);
    // V-19: the alpha becomes stable.
    let promote = [
        "api",
        "promote",
        "shop.v2alpha",
        "--tree",
        dir.path().to_str().expect("UTF-8"),
    ];
    let urls =
        "type URL: type.googleapis.com/shop.v2alpha.Order -> type.googleapis.com/shop.v2.Order";
    oxds(promote).expect(0, &["removed: shop/v2alpha/order.proto", urls]);
    assert!(dir.path().join("shop/v2/order.proto").exists());
    assert!(!dir.path().join("shop/v2alpha/order.proto").exists());
    oxds(promote).expect(2, &["unknown package `shop.v2alpha`"]);
}

#[test]
fn compile_errors_are_listed_with_locations() {
    let dir = repository();
    edit(dir.path(), "string id", "Gone id");
    edit(dir.path(), "int32 count = 2", "int32 count = 1");
    let ran = api("check", dir.path(), &[]);
    ran.expect(
        3,
        &[
            "order.proto:6:3: error: Gone is not defined",
            "error: the proto files do not compile: 1 error",
        ],
    );
}

#[test]
fn unreadable_input_is_a_usage_error() {
    let dir = repository();
    let against = |other: &str| api("check", dir.path(), &["--against", other]);
    against(".git#ref=nothing").expect(2, &["unknown revision ref=nothing"]);
    against(".git#brunch=main").expect(2, &["brunch=main"]);
    against("crate:nothing@1.0.0").expect(2, &["cargo fetch"]);
    against("/no/such/folder").expect(2, &["/no/such/folder"]);
    let set = folder(&[("set.binpb", "\u{1}")]);
    let set = set.path().join("set.binpb");
    against(set.to_str().expect("UTF-8")).expect(2, &["malformed FileDescriptorSet"]);
    let plain = folder(&[("a.proto", "syntax = \"proto3\";")]);
    api("check", plain.path(), &[]).expect(2, &["git"]);
    oxds(["api", "explain", "NO_SUCH_RULE"]).expect(2, &["unknown rule NO_SUCH_RULE"]);
    let said = ["FIELD_RENUMBERED", "V-27", "--- ok", "--- bad"];
    oxds(["api", "explain", "field_renumbered"]).expect(0, &said);
}

#[test]
fn v8_check_reports_new_lint_findings_only() {
    let dir = repository();
    let alpha = "syntax = \"proto3\";\n\npackage stock.v1alpha;\n\nmessage Item {}\n";
    let stock = dir.path().join("stock/v1alpha");
    fs::create_dir_all(&stock).expect("a folder");
    fs::write(stock.join("item.proto"), alpha).expect("a file");
    edit(
        dir.path(),
        "package shop.v1;\n",
        "package shop.v1;\n\nimport \"stock/v1alpha/item.proto\";\n",
    );
    edit(
        dir.path(),
        "count = 2;",
        "count = 2;\n  stock.v1alpha.Item item = 3;",
    );
    api("lint", dir.path(), &[]).expect(1, &["error[STABLE_USES_UNSTABLE]", "stock.v1alpha"]);
    api("odr", dir.path(), &[]).expect(0, &["no findings"]);
    api("check", dir.path(), &[]).expect(1, &["error[STABLE_USES_UNSTABLE]"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-qm", "two"]);
    git(dir.path(), &["branch", "-f", "main"]);
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
}

#[test]
fn v43_removal_inside_the_deprecation_window_fails() {
    let dir = repository();
    edit(
        dir.path(),
        "string id = 1;",
        "string id = 1 [deprecated = true];",
    );
    let ledger = "releases:\n- {version: 1.0.0, date: 2021-01-10}\n- {version: 1.1.0, date: 2021-04-10}\ndeprecated:\n- {element: shop.v1.Order.id, since: 1.0.0, replacement: shop.v1.Order.key}\n";
    fs::write(dir.path().join("oxds-ledger.yaml"), ledger).expect("written");
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-qm", "deprecate"]);
    api("clock", dir.path(), &["--element", "shop.v1.Order.id"]).expect(
        0,
        &[
            "shop.v1.Order.id disallowed by default, deprecated since 2021-01-10; use shop.v1.Order.key",
            "\"envoy.deprecated_features:shop.v1.Order.id\": true",
        ],
    );
    api("audit", dir.path(), &[]).expect(0, &["deprecated: 1\n"]);
    edit(
        dir.path(),
        "string id = 1 [deprecated = true];",
        "reserved 1;\n  reserved \"id\";",
    );
    let head = format!("{}/.git#ref=HEAD", dir.path().display());
    api("check", dir.path(), &["--against", &head]).expect(
        1,
        &["removed too early (phase: disallowed by default); no planned event allows the removal"],
    );
}

#[test]
fn v61_life_cycle_from_addition_to_the_next_stable_major() {
    let dir = repository();
    let tree = dir.path().to_str().expect("UTF-8");
    let read = |path: &str| fs::read_to_string(dir.path().join(path)).expect("a file");
    // Adding a field breaks nothing, and no next major exists yet.
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    api("check", dir.path(), &[]).expect(0, &["no findings"]);
    oxds(["api", "next-major", tree]).expect(0, &[]);
    assert!(!dir.path().join("shop/v2alpha").exists());
    // Deprecating a field generates the next major without it; its number and name are reserved.
    edit(
        dir.path(),
        "int32 count = 2;",
        "int32 count = 2 [deprecated = true];",
    );
    api("check", dir.path(), &[]).expect(0, &[]);
    oxds(["api", "next-major", tree, "--why"]).expect(0, &["shop.v1.Order"]);
    oxds(["api", "next-major", tree]).expect(0, &["shop/v2alpha/order.proto"]);
    let next = read("shop/v2alpha/order.proto");
    assert!(next.contains("package shop.v2alpha;"), "{next}");
    assert!(
        next.contains("reserved 2;") && next.contains("reserved \"count\";"),
        "{next}"
    );
    assert!(next.contains("string note = 3;"), "{next}");
    // Another edit of v1 makes the next major outdated; generating twice changes nothing.
    edit(dir.path(), "note = 3;", "note = 3;\n  string place = 4;");
    oxds(["api", "next-major", tree, "--check"]).expect(1, &["order.proto"]);
    oxds(["api", "next-major", tree]).expect(0, &[]);
    oxds(["api", "next-major", tree, "--check"]).expect(0, &[]);
    assert!(read("shop/v2alpha/order.proto").contains("string place = 4;"));
    // The alpha becomes stable. Both majors exist, and their types are mapped.
    oxds(["api", "promote", "shop.v2alpha", "--tree", tree]).expect(
        0,
        &["type URL: type.googleapis.com/shop.v2alpha.Order -> type.googleapis.com/shop.v2.Order"],
    );
    assert!(read("shop/v2/order.proto").contains("package shop.v2;"));
    assert!(read("shop/v1/order.proto").contains("int32 count = 2"));
    api("lint", dir.path(), &[]).expect(0, &[]);
    // The old major cannot be removed, because it was released.
    fs::remove_dir_all(dir.path().join("shop/v1")).expect("the folder");
    api("check", dir.path(), &[]).expect(1, &["error[PACKAGE_REMOVED] shop.v1"]);
}

#[test]
fn v20_review_lists_the_owners_of_changed_paths() {
    let dir = repository();
    let ledger = "owners:\n- path: shop/\n  team: \"@shop/api\"\n";
    fs::write(dir.path().join("oxds-ledger.yaml"), ledger).expect("a file");
    api("review", dir.path(), &[]).expect(0, &["no-api-review"]);
    edit(dir.path(), "message", "// A purchase.\nmessage");
    api("review", dir.path(), &[])
        .expect(0, &["needs-api-review\nshop/v1/order.proto @shop/api\n"]);
}
