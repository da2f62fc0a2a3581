//! `oxds diff`: two folders or commits.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::api::{commit, git};
use crate::support::{Ran, cluster, folder, oxds};

fn diff(old: &Path, new: &Path, more: &[&str]) -> Ran {
    let (old, new) = (old.to_str().expect("UTF-8"), new.to_str().expect("UTF-8"));
    oxds([&["diff", old, new], more].concat())
}

/// Given equal resources in other files, then there is no difference. Given others, the exit code is 1, and each field
/// is named.
#[test]
fn diff_names_fields_wherever_resources_are() {
    let old = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let both = format!("{}---\n{}", cluster("b"), cluster("a"));
    let new = folder(&[("all.yaml", &both)]);
    let ran = diff(old.path(), new.path(), &[]);
    assert_eq!(ran.expect(0, &[]).stdout, "no difference\n");

    let changed = both.replace("connect_timeout: 1s\n", "connect_timeout: 2s\n");
    let changed = changed.replace("name: b", "name: c");
    fs::write(new.path().join("all.yaml"), changed).expect("written");
    let ran = diff(old.path(), new.path(), &[]);
    assert_eq!(
        ran.expect(1, &[]).stdout,
        "\
changed cds a
    ~ connect_timeout: \"1s\" -> \"2s\"
removed cds b
added cds c
TYPE  GROUP  ADDED  CHANGED  REMOVED
cds   -      1      1        1
1 added, 1 changed, 1 removed
"
    );
    let json = diff(old.path(), new.path(), &["--format", "json"]);
    let json: Value = serde_json::from_str(&json.expect(1, &[]).stdout).expect("JSON");
    assert_eq!(json["changes"][0]["fields"][0]["path"], "connect_timeout");
    assert_eq!(json["changes"][0]["fields"][0]["new"], "2s");
    assert_eq!(
        (&json["added"], &json["more_changes"]),
        (&1.into(), &0.into())
    );
}

/// Given a repository with two commits and a folder of work, then each may be compared with each other.
#[test]
fn diff_reads_commits() {
    let dir = folder(&[
        ("config/a.yaml", &cluster("a")),
        ("config/groups/edge/group.yaml", "match: {id: edge-*}\n"),
        ("config/groups/edge/g.yaml", &cluster("a")),
        ("config/.hidden/h.yaml", &cluster("h")),
        ("other/o.yaml", &cluster("o")),
        ("README.md", "no resource"),
    ]);
    git(dir.path(), &["init", "-q"]);
    commit(dir.path(), "one", "2026-01-01T00:00:00Z");
    git(dir.path(), &["tag", "v1"]);
    let path = |name: &str| dir.path().join(name);
    let at_tag = path(".git#tag=v1,subdir=config");
    diff(&at_tag, &path("config"), &[]).expect(0, &["no difference"]);

    fs::write(path("config/b.yaml"), cluster("b")).expect("written");
    fs::write(
        path("config/groups/edge/group.yaml"),
        "match: {id: edge-*, locality: {region: eu}}\n",
    )
    .expect("written");
    commit(dir.path(), "two", "2026-01-02T00:00:00Z");
    fs::remove_file(path("config/b.yaml")).expect("removed");
    let ran = diff(&at_tag, &path(".git#ref=HEAD,subdir=config"), &[]);
    let added = "added cds b\nchanged group edge\n    + match.locality.region: \"eu\"\n";
    assert!(ran.expect(1, &[]).stdout.starts_with(added), "{ran:#?}");
    let work = diff(&path(".git#ref=HEAD,subdir=config"), &path("config"), &[]);
    assert!(
        work.expect(1, &[]).stdout.starts_with("removed cds b\n"),
        "{work:#?}"
    );
    let other = diff(&at_tag, &path(".git#tag=v1,subdir=other"), &[]);
    other.expect(1, &["added cds o", "removed group edge"]);
}

/// Given inputs that cannot be read completely, then the exit code is 2, as that of `diff` for trouble.
#[test]
fn diff_of_incomplete_inputs_is_an_error() {
    let good = folder(&[("a.yaml", &cluster("a"))]);
    let bad = folder(&[("a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"))]);
    diff(good.path(), bad.path(), &[]).expect(2, &["has errors", "a.yaml:4:1: error: lb_polizy"]);
    diff(good.path(), &good.path().join("none"), &[]).expect(2, &["cannot read the folder"]);
    diff(good.path(), Path::new("crate:a@1.0.0"), &[])
        .expect(2, &["expected a folder or a commit"]);
    git(good.path(), &["init", "-q"]);
    commit(good.path(), "one", "2026-01-01T00:00:00Z");
    let unknown = good.path().join(".git#ref=nope");
    diff(good.path(), &unknown, &[]).expect(2, &["unknown revision ref=nope"]);
    let no_folder = good.path().join(".git#ref=HEAD,subdir=none");
    diff(good.path(), &no_folder, &[]).expect(2, &["ref=HEAD has no folder none"]);
    // Errors of a commit name its files.
    fs::write(good.path().join("a.yaml"), "nonsense: 1\n").expect("written");
    commit(good.path(), "two", "2026-01-02T00:00:00Z");
    let head = good.path().join(".git#ref=HEAD");
    diff(bad.path(), &head, &[]).expect(2, &["has errors"]);
    diff(&head, &head, &[]).expect(2, &["HEAD:./a.yaml:1:1: error"]);
}

/// Given more changes and fields than the limit, then the rest is counted. Secrets and control characters are not
/// printed.
#[test]
fn diff_is_bounded_and_safe() {
    let old = folder(&[]);
    let all: Vec<_> = (0..300).map(|at| cluster(&format!("c{at:03}"))).collect();
    fs::write(old.path().join("a.yaml"), all.join("---\n")).expect("written");
    let new = folder(&[("a.yaml", &all.join("---\n").replace(": 1s", ": 2s"))]);
    let ran = diff(old.path(), new.path(), &["--limit", "3"]);
    let lines = ran.expect(1, &["and 297 more changes: --limit 0 prints all"]);
    assert_eq!(lines.stdout.lines().count(), 3 * 2 + 1 + 2 + 1, "{ran:#?}");
    let whole = diff(old.path(), new.path(), &["--limit", "0"]);
    assert_eq!(whole.expect(1, &[]).stdout.lines().count(), 300 * 2 + 2 + 1);
    let json = diff(
        old.path(),
        new.path(),
        &["--limit", "3", "--format", "json"],
    );
    let json: Value = serde_json::from_str(&json.expect(1, &[]).stdout).expect("JSON");
    assert_eq!(
        (&json["more_changes"], &json["changed"]),
        (&297.into(), &300.into())
    );

    let secret = |value: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: \"k\\e[31m\\n::error::x\"\ngeneric_secret: {{secret: {{inline_string: {value}}}}}\n"
        )
    };
    let (old, new) = (
        folder(&[("a.yaml", &secret("HUSH1"))]),
        folder(&[("a.yaml", &secret("HUSH2"))]),
    );
    for format in ["text", "json"] {
        let ran = diff(old.path(), new.path(), &["--format", format]);
        let shown = &ran.expect(1, &["(not shown)"]).stdout;
        assert!(
            !shown.contains("HUSH") && !shown.contains('\u{1b}'),
            "{shown}"
        );
        assert!(!shown.contains("\n::error"), "{shown}");
    }
}
