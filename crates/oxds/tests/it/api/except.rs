//! Findings that do not count: `buf.yaml`, baselines, young elements, the grace period of a frozen
//! major.

use std::fs;
use std::path::Path;

use super::{api, commit, edit, git, repository, write};
use crate::support::oxds;

/// Release long before the changes, so that young elements are unreleased.
const RELEASED: &str = "releases:\n- {version: 1.0.0, date: 2021-01-10}\n";

#[test]
fn paths_and_rules_ignored_by_buf_are_exempt() {
    let dir = repository();
    edit(dir.path(), "int32 count", "string count");
    let check = || api("check", dir.path(), &[]);
    check().expect(1, &["error[FIELD_TYPE_CHANGED]"]);
    for breaking in [
        "  ignore: [shop/v1]",
        "  except: [FIELD_SAME_TYPE]",
        "  ignore_only: {WIRE: [shop/v1/order.proto]}",
    ] {
        write(
            dir.path(),
            "buf.yaml",
            &format!("version: v1\nbreaking:\n{breaking}\n"),
        );
        check().expect(0, &["ignored by buf.yaml"]);
    }
    write(
        dir.path(),
        "buf.yaml",
        "version: v2\nmodules:\n- path: .\n  breaking: {ignore: [shop/v2]}\nbreaking: {ignore: [shop]}\n",
    );
    check().expect(1, &["error[FIELD_TYPE_CHANGED]"]);
}

#[test]
fn removed_file_is_ignored_by_its_own_path() {
    let dir = repository();
    let item = "syntax = \"proto3\";\n\npackage shop.v1;\n\nmessage Item {\n  string sku = 1;\n}\n";
    write(dir.path(), "shop/v1/item.proto", item);
    commit(dir.path(), "an item", "2021-02-01T00:00:00Z");
    git(dir.path(), &["branch", "-f", "main"]);
    fs::remove_file(dir.path().join("shop/v1/item.proto")).expect("the file");
    let check = |ignored: &str| {
        let text = format!("version: v1\nbreaking: {{ignore: [{ignored}]}}\n");
        write(dir.path(), "buf.yaml", &text);
        api("check", dir.path(), &[])
    };
    // The finding is located at the file that is left of the package.
    check("shop/v1/order.proto").expect(
        1,
        &["shop/v1/order.proto:3:1: error[FILE_REMOVED] shop/v1/item.proto: removed"],
    );
    check("shop/v1/item.proto").expect(0, &["1 exempt (ignored by buf.yaml)"]);
}

#[test]
fn exception_accepts_the_buf_rule_id() {
    let dir = repository();
    edit(dir.path(), "int32 count", "string count");
    let allow = "allow:\n- rule: FIELD_SAME_TYPE\n  element: shop.v1.Order.count\n  reason: not used\n  owner: shop\n";
    write(dir.path(), "oxds-api.yaml", allow);
    api("check", dir.path(), &[]).expect(0, &["1 exempt (exception: not used)"]);
}

#[test]
fn baseline_exempts_findings_of_an_earlier_report() {
    let dir = repository();
    edit(dir.path(), "package shop.v1;", "package shop;");
    let path = dir.path().join("baseline.json");
    let baseline = path.to_str().expect("UTF-8");
    for form in ["json", "jsonl"] {
        let report = api("lint", dir.path(), &["--format", form]);
        report.expect(1, &["PACKAGE_NAME"]);
        fs::write(&path, &report.stdout).expect("a file");
        let lint = api("lint", dir.path(), &["--baseline", baseline, "--stats"]);
        lint.expect(0, &["in the baseline", "PACKAGE_NAME", "1 files checked"]);
    }
    write(dir.path(), "other/other.proto", "syntax = \"proto3\";\n");
    api("lint", dir.path(), &["--baseline", baseline]).expect(1, &["other.proto"]);
    fs::write(&path, "{}\n").expect("a file");
    let no_report =
        "baseline.json:1: malformed baseline: expected the output of `oxds api … --format json`";
    api("lint", dir.path(), &["--baseline", baseline]).expect(2, &[no_report]);
    api("lint", dir.path(), &["--baseline", "gone.json"]).expect(2, &["gone.json"]);
}

#[test]
fn lint_changed_only_checks_changed_files() {
    let dir = repository();
    write(dir.path(), "old/old.proto", "syntax = \"proto3\";\n");
    commit(dir.path(), "two", "2021-01-01T00:00:00Z");
    git(dir.path(), &["branch", "-f", "main"]);
    write(dir.path(), "new/new.proto", "syntax = \"proto3\";\n");
    let all = api("lint", dir.path(), &[]);
    all.expect(1, &["old.proto", "new.proto"]);
    let changed = api("lint", dir.path(), &["--changed-only"]);
    changed.expect(1, &["new.proto", "against merge base"]);
    assert!(!changed.stdout.contains("old.proto"), "{changed:#?}");
}

#[test]
fn v35_element_under_two_weeks_and_unreleased_may_change() {
    let dir = repository();
    write(dir.path(), "oxds-ledger.yaml", RELEASED);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "-q", "--amend", "-m", "one"]);
    let change = |from: &str, to: &str| {
        edit(dir.path(), from, to);
        let ran = api("check", dir.path(), &["--against", &head(dir.path())]);
        edit(dir.path(), to, from);
        ran
    };
    // The history is shorter than two weeks, so the age is unknown.
    change("int32 count", "string count").expect(1, &["FIELD_TYPE_CHANGED"]);
    let dir = repository_of_2021();
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    git(dir.path(), &["commit", "-qam", "note"]);
    let change = |from: &str, to: &str| {
        edit(dir.path(), from, to);
        let ran = api("check", dir.path(), &["--against", &head(dir.path())]);
        edit(dir.path(), to, from);
        ran
    };
    let young = "1 exempt (younger than 14 days and unreleased)";
    change("string note", "int32 note").expect(0, &[young]);
    change("int32 count", "string count").expect(1, &["FIELD_TYPE_CHANGED"]);
    // A release of today contains it.
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let made = format!("{RELEASED}- {{version: 1.1.0, date: {}}}\n", today.date());
    write(dir.path(), "oxds-ledger.yaml", &made);
    change("string note", "int32 note").expect(1, &["FIELD_TYPE_CHANGED"]);
}

#[test]
fn v14_addition_to_both_majors_is_exempt_in_the_grace_period() {
    let dir = repository_of_2021();
    let v1 = fs::read_to_string(dir.path().join("shop/v1/order.proto")).expect("the file");
    write(
        dir.path(),
        "shop/v2/order.proto",
        &v1.replace("shop.v1", "shop.v2"),
    );
    let tree = dir.path().to_str().expect("UTF-8");
    oxds(["api", "freeze", "shop.v1", "--tree", tree]).expect(0, &[]);
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let event = |date: jiff::civil::Date| {
        let ledger =
            format!("grace_months: 3\nevents:\n- {{name: one, date: {date}, majors: [shop.v2]}}\n");
        write(dir.path(), "oxds-ledger.yaml", &ledger);
    };
    event(today.date());
    commit(dir.path(), "two majors", "2021-02-01T00:00:00Z");
    git(dir.path(), &["branch", "-f", "main"]);
    edit(dir.path(), "count = 2;", "count = 2;\n  string note = 3;");
    let check = || api("check", dir.path(), &[]);
    check().expect(1, &["error[FROZEN_PACKAGE_CHANGED] shop.v1"]);
    let v1 = fs::read_to_string(dir.path().join("shop/v1/order.proto")).expect("the file");
    write(
        dir.path(),
        "shop/v2/order.proto",
        &v1.replace("shop.v1", "shop.v2"),
    );
    check().expect(
        0,
        &["1 exempt (added to shop.v2 as well, within the grace period)"],
    );
    event(today.date().saturating_sub(jiff::Span::new().days(100)));
    check().expect(1, &["error[FROZEN_PACKAGE_CHANGED] shop.v1"]);
}

fn head(dir: &Path) -> String {
    format!("{}/.git#ref=HEAD", dir.display())
}

/// Creates a repository with a ledger whose only commit is of 2021.
fn repository_of_2021() -> tempfile::TempDir {
    let dir = repository();
    write(dir.path(), "oxds-ledger.yaml", RELEASED);
    git(dir.path(), &["checkout", "-q", "--orphan", "old"]);
    commit(dir.path(), "old", "2021-01-01T00:00:00Z");
    git(dir.path(), &["branch", "-f", "main"]);
    dir
}
