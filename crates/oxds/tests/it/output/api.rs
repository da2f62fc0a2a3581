//! `oxds api`: a repository with a change, two majors, and their releases.

use std::process::Command;

use super::Work;

const ORDER: &str = "syntax = \"proto3\";

package shop.v1;

// A purchase.
message Order {
  string id = 1;
  int32 count = 2;
  string code = 3 [deprecated = true];
}
";

const LEDGER: &str = "releases:
- {version: 1.0.0, date: 2021-01-10}
- {version: 1.1.0, date: 2021-04-10}
deprecated:
- {element: shop.v1.Order.code, since: 1.0.0, replacement: shop.v1.Order.id}
owners:
- {path: shop/, team: \"@shop/api\"}
";

fn git(work: &Work, line: &[&str]) {
    let date = "2026-01-01T00:00:00Z";
    let git = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(["-c", "commit.gpgsign=false"])
        .args(line)
        .current_dir(work.path())
        .env("GIT_AUTHOR_DATE", date)
        .env("GIT_COMMITTER_DATE", date)
        .output()
        .expect("git runs");
    assert!(git.status.success(), "{git:?}");
}

/// A repository with one package on main, and an unchanged branch.
fn repository() -> Work {
    let work = Work::new(&[("shop/v1/order.proto", ORDER), ("oxds-ledger.yaml", LEDGER)]);
    git(&work, &["init", "-q"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "one"]);
    git(&work, &["checkout", "-qb", "change"]);
    work
}

#[test]
fn checks_of_a_change_are_as_reviewed() {
    let work = repository();
    work.snapshot("api_check", "api check");
    work.snapshot("api_review.none", "api review");
    let changed = ORDER
        .replace("int32 count", "string count")
        .replace("id = 1", "key = 1");
    work.write("shop/v1/order.proto", &changed);
    work.snapshot("api_check.findings", "api check");
    for format in ["json", "github", "gitlab", "junit", "sarif"] {
        work.snapshot(
            &format!("api_check.{format}"),
            &format!("api check --format {format}"),
        );
    }
    work.snapshot("api_breaking", "api breaking");
    work.snapshot("api_breaking.wire", "api breaking --wire-only");
    work.snapshot("api_review", "api review");
    work.snapshot("api_review.json", "api review --format json");
    work.snapshot("api_suggest-version", "api suggest-version --current 1.9.1");
    let allow = "api check --write-allow --owner shop --reason unused";
    work.snapshot("api_check.write-allow", allow);
    work.snapshot("api_check.exempt", "api check");
    work.write(
        "shop/v1/order.proto",
        &ORDER.replace("string id", "Gone id"),
    );
    work.snapshot("api_check.compile-error", "api check");
    work.snapshot(
        "api_check.unknown-revision",
        "api check --against .git#ref=none",
    );
}

#[test]
fn versions_and_frozen_packages_are_as_reviewed() {
    let work = repository();
    work.snapshot("api_hash", "api hash");
    work.snapshot("api_hash.json", "api hash --format json");
    work.snapshot("api_bump.init", "api bump --fix --init");
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "versions"]);
    let changed = ORDER.replace("count = 2;", "count = 2;\n  string note = 4;");
    work.write("shop/v1/order.proto", &changed);
    work.snapshot("api_bump", "api bump --against .git#ref=HEAD");
    work.snapshot("api_bump.fix", "api bump --fix --against .git#ref=HEAD");
    work.snapshot("api_freeze", "api freeze shop.v1");
    work.snapshot("api_freeze.unknown", "api freeze shop.v9");
}

#[test]
fn lint_and_audit_are_as_reviewed() {
    let work = repository();
    work.snapshot("api_lint", "api lint");
    work.snapshot("api_odr", "api odr");
    work.snapshot("api_clock", "api clock");
    work.snapshot("api_clock.json", "api clock --format json");
    work.snapshot(
        "api_clock.element",
        "api clock --element shop.v1.Order.code",
    );
    work.snapshot("api_audit", "api audit");
    work.snapshot("api_audit.json", "api audit --format json");
    let text = ORDER.replace("shop.v1", "stock.v1.inner");
    work.write("stock/item.proto", &text);
    work.snapshot("api_lint.findings", "api lint");
    work.snapshot("api_explain", "api explain FIELD_RENUMBERED");
    work.snapshot("api_explain.all", "api explain");
    work.snapshot("api_explain.unknown", "api explain NO_SUCH_RULE");
}

#[test]
fn next_major_is_as_reviewed() {
    let work = repository();
    work.snapshot("api_next-major.why", "api next-major --why");
    work.snapshot("api_next-major.check", "api next-major --check");
    work.snapshot("api_next-major", "api next-major");
    work.snapshot("api_promote", "api promote shop.v2alpha");
    work.snapshot("api_typemap", "api typemap");
    work.snapshot("api_typemap.json", "api typemap --format json");
    let order = "'@type': type.googleapis.com/shop.v1.Order\nid: a\ncount: 3\ncode: b\n";
    work.write("order.yaml", order);
    work.snapshot("api_translate", "api translate order.yaml --to v2 --tree .");
    work.snapshot(
        "api_translate.strict",
        "api translate order.yaml --to v2 --tree . --strict",
    );
    work.snapshot("api_stubs", "api stubs --to v2 --tree .");
}
