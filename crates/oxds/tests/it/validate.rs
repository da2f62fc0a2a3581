//! Tests of `oxds validate`: exit code and reported place for each sort of invalid input.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::support::{Ran, cluster, folder, oxds, shop};

fn validate(files: &[(&str, &str)]) -> Ran {
    let dir = folder(files);
    oxds(["validate".as_ref(), dir.path().as_os_str()])
}

#[test]
fn examples_have_no_findings() {
    let examples = shop().join("..").read_dir().expect("the examples");
    for example in examples {
        let example = example.expect("an example").path();
        // This example has protos, not resources.
        if example.ends_with("api") {
            continue;
        }
        let strict = [
            "validate".as_ref(),
            example.as_os_str(),
            "--strict".as_ref(),
        ];
        oxds(strict).expect(0, &["0 errors, 0 warnings"]);
    }
}

#[test]
fn missing_folder_is_a_usage_error() {
    oxds(["validate", "/no/such/folder"]).expect(2, &["/no/such/folder", "No such file"]);
}

#[test]
fn file_instead_of_folder_is_a_usage_error() {
    let dir = folder(&[("a.yaml", "")]);
    let file = dir.path().join("a.yaml");
    oxds(["validate".as_ref(), file.as_os_str()]).expect(2, &["a.yaml is not a folder"]);
}

#[test]
fn empty_folder_is_a_warning_and_fails_with_strict() {
    validate(&[]).expect(0, &["no resources found", "1 warning"]);
    let dir = folder(&[]);
    let strict = oxds([
        "validate".as_ref(),
        dir.path().as_os_str(),
        "--strict".as_ref(),
    ]);
    strict.expect(1, &["no resources found"]);
}

#[test]
fn syntax_error_is_reported_with_line() {
    validate(&[("a.yaml", "name: [1, 2\nother: x\n")]).expect(1, &["a.yaml:2:", "error: "]);
    validate(&[("a.json", "{\"@type\": }")]).expect(1, &["a.json:1:", "error: "]);
}

#[test]
fn unknown_field_is_an_error_unless_allowed() {
    let text = cluster("a") + "lb_polizy: RANDOM\n";
    let ran = validate(&[("a.yaml", &text)]);
    ran.expect(
        1,
        &[
            "a.yaml:4:1: error: lb_polizy: unknown field `lb_polizy`",
            "1 error",
        ],
    );
    let dir = folder(&[("a.yaml", &text)]);
    let dir = dir.path().as_os_str();
    oxds(["validate".as_ref(), dir, "--allow-unknown-fields".as_ref()]).expect(0, &["0 errors"]);
}

#[test]
fn violated_validation_rule_is_reported_with_line() {
    let text = cluster("a").replace("connect_timeout: 1s", "connect_timeout: 0s");
    validate(&[("a.yaml", &text)]).expect(1, &["a.yaml:3:", "connect_timeout", "does not hold"]);
}

#[test]
fn duplicate_name_error_names_both_files() {
    let ran = validate(&[
        ("a.yaml", &cluster("same")),
        ("sub/b.yaml", &cluster("same")),
    ]);
    ran.expect(1, &["b.yaml:", "\"same\"", "already defined in", "a.yaml"]);
}

#[test]
fn s70_missing_reference_is_warning_or_strict_error() {
    let eds = cluster("a") + "type: EDS\neds_cluster_config: { eds_config: { ads: {} } }\n";
    let dir = folder(&[("a.yaml", &eds)]);
    let path = dir.path().as_os_str();
    oxds(["validate".as_ref(), path]).expect(0, &["a.yaml:1:", "warning: ", "eds \"a\""]);
    oxds(["validate".as_ref(), path, "--strict".as_ref()]).expect(1, &["error: ", "eds \"a\""]);
}

#[test]
fn large_invalid_file_is_an_error_with_bounded_output() {
    let many: String = (0..500_000).map(|n| format!("- {{ a: {n}, b: [1, 2, 3], c: some text that fills a line up to a hundred characters }}\n")).collect();
    assert!(many.len() > 40_000_000, "{}", many.len());
    let ran = validate(&[("big.yaml", &many), ("good.yaml", &cluster("good"))]);
    ran.expect(1, &["big.yaml", "error: ", "1 resource"]);
    assert!(ran.stdout.len() < 1_000_000, "findings are bounded");
}

#[test]
fn symlink_loop_and_dangling_link_are_errors() {
    let dir = folder(&[("good.yaml", &cluster("good"))]);
    symlink(dir.path(), dir.path().join("loop")).expect("a link");
    symlink("a.yaml", dir.path().join("a.yaml")).expect("a link");
    symlink("/no/such/file", dir.path().join("b.yaml")).expect("a link");
    let ran = oxds(["validate".as_ref(), dir.path().as_os_str()]);
    ran.expect(1, &["/a.yaml: error: ", "/b.yaml: error: ", "1 resource"]);
}

/// CI may run as root, which ignores permissions. So a folder with the name of a file stands for an unreadable file.
#[test]
fn unreadable_file_does_not_affect_other_files() {
    let dir = folder(&[("good.yaml", &cluster("good"))]);
    fs::create_dir(dir.path().join("bad.yaml")).expect("a folder");
    let ran = oxds(["validate".as_ref(), dir.path().as_os_str()]);
    ran.expect(1, &["bad.yaml: error: ", "1 resource"]);
}

#[test]
fn json_findings_have_line_and_column() {
    let dir = folder(&[("a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"))]);
    let path = dir.path().as_os_str();
    let ran = oxds([
        "validate".as_ref(),
        path,
        "--format".as_ref(),
        "json".as_ref(),
    ]);
    ran.expect(1, &[]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["line"], &finding["column"]),
        (&4.into(), &1.into())
    );
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["path"], "lb_polizy");
    assert!(
        finding["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("a.yaml"))
    );
    assert_eq!(report["errors"], 1);
}

/// Given file and field names with line breaks, terminal escapes and bidirectional marks, then the output has none of them, as
/// text and as JSON.
#[test]
fn b13_validate_escapes_names_from_files() {
    let dir = folder(&[(
        "x\n::error::forged\u{1b}[2J.yaml",
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n\"\u{202e}lb\u{7f} ##[error]\": 1\n",
    )]);
    for format in ["text", "json"] {
        let ran = oxds([
            "validate".as_ref(),
            dir.path().as_os_str(),
            "--format".as_ref(),
            format.as_ref(),
        ]);
        ran.expect(1, &["forged"]);
        assert!(
            !ran.stdout
                .lines()
                .any(|line| line.trim_start().starts_with("::")),
            "{ran:?}"
        );
        assert!(
            !ran.stdout.contains(['\u{1b}', '\u{202e}', '\u{7f}']),
            "{ran:?}"
        );
        assert!(format == "json" || !ran.stdout.contains("##["), "{ran:?}");
    }
}
