//! The load of a folder: its resources and its findings.

use std::collections::BTreeSet;
use std::fs;

use oxds_server::dir::{self, Error, Options};
use oxds_server::{DirStore, Severity};
use oxds_types::ResourceType;

use super::{changed, cluster, folder, lines, load, names};

/// Given a file of each format and each form of document, at several depths, and other files, then all resources are
/// found, and no other file is read.
#[test]
fn s72_every_format_and_form_is_read() {
    let list = format!(
        "- {}\n- {}\n",
        r#"{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: list-1}"#,
        r#"{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: list-2}"#
    );
    let json = r#"{"resources": [{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "json"}]}"#;
    let dir = folder(&[
        ("one.yaml", &cluster("one")),
        (
            "two.yml",
            &format!("{}---\n{}", cluster("two"), cluster("three")),
        ),
        ("deep/er/list.yaml", &list),
        ("a.json", json),
        (".hidden.yaml", "not: read"),
        (".git/x.yaml", "not: read"),
        ("one.yaml~", "not: read"),
        ("README.md", "not: read"),
    ]);
    let report = load(&dir);
    assert_eq!(lines(&dir, &report.findings), [""; 0]);
    let expected = ["json", "list-1", "list-2", "one", "three", "two"];
    assert_eq!(names(&report), BTreeSet::from(expected));
    assert_eq!(report.files, 4);
    assert!(
        report
            .resources
            .iter()
            .all(|resource| *resource.resource_type() == ResourceType::CLUSTER)
    );
}

/// Given files with a syntax error, an unknown field and a broken rule, then each error is reported with file and
/// position, and the valid file is served (S-71, S-73).
#[test]
fn s71_s73_errors_have_file_and_position() {
    let dir = folder(&[
        ("good.yaml", &cluster("good")),
        ("syntax.yaml", "name: [unclosed\n"),
        (
            "unknown.yaml",
            &format!("{}conect_timeout: 1s\n", cluster("a")),
        ),
        (
            "rule.yaml",
            &format!("{}connect_timeout: 0s\n", cluster("b")),
        ),
    ]);
    let report = load(&dir);
    assert_eq!(names(&report), BTreeSet::from(["good"]));
    assert_eq!(report.count(Severity::Error), 3);
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["rule", "syntax", "unknown-field"]);
    let lines = lines(&dir, &report.findings);
    assert!(
        lines[0].starts_with("rule.yaml:4:") && lines[0].contains("connect_timeout"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("syntax.yaml:"), "{lines:?}");
    assert!(
        lines[2].starts_with("unknown.yaml:4:1: error:"),
        "{lines:?}"
    );
    assert!(lines[2].contains("conect_timeout"), "{lines:?}");
}

/// Given one name in two files, then the first file owns it, and the error of the second names both.
#[test]
fn s72_duplicate_name_reports_both_files() {
    let dir = folder(&[("a.yaml", &cluster("x")), ("b.yaml", &changed("x"))]);
    let report = load(&dir);
    assert_eq!(report.resources.len(), 1);
    let [line] = &lines(&dir, &report.findings)[..] else {
        panic!("{report:?}")
    };
    assert!(
        line.starts_with("b.yaml:")
            && line.contains("error: duplicate cds \"x\": already defined in "),
        "{line}"
    );
    assert!(line.ends_with("a.yaml"), "{line}");

    let dir = folder(&[("a.yaml", &format!("{}---\n{}", cluster("x"), cluster("x")))]);
    let report = load(&dir);
    assert_eq!(report.resources.len(), 0);
    assert!(
        lines(&dir, &report.findings)[0].contains("already defined in this file"),
        "{report:?}"
    );
}

/// Given a route to a cluster that does not exist, then it is a warning, and with `strict` an error (S-70).
#[test]
fn s70_dangling_reference_is_warning_or_strict_error() {
    let route = r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: r
virtual_hosts:
- { name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: missing } }] }
"#;
    let dir = folder(&[("r.yaml", route)]);
    let report = load(&dir);
    assert_eq!(names(&report), BTreeSet::from(["r"]));
    assert_eq!(
        (
            report.count(Severity::Warning),
            report.count(Severity::Error)
        ),
        (1, 0)
    );
    let line = &lines(&dir, &report.findings)[0];
    assert!(
        line.starts_with("r.yaml:") && line.contains("warning: ") && line.contains("missing"),
        "{line}"
    );

    let mut strict = Options::default();
    strict.strict = true;
    assert_eq!(
        dir::load(dir.path(), &strict)
            .unwrap()
            .count(Severity::Error),
        1
    );
}

/// Given a missing folder, a file in its place and an empty folder, then each has its own error or warning.
#[test]
fn s72_missing_folder_is_an_error_but_empty_is_not() {
    let dir = folder(&[("file.yaml", &cluster("a"))]);
    let missing = dir.path().join("nowhere");
    let error = dir::load(&missing, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert!(matches!(error, Error::Unreadable { .. }));
    assert!(matches!(
        DirStore::open(&missing, Options::default()),
        Err(Error::Unreadable { .. })
    ));
    let file = dir.path().join("file.yaml");
    assert_eq!(
        dir::load(&file, &Options::default()).unwrap_err(),
        Error::NotAFolder(file)
    );

    let empty = folder(&[]);
    let report = load(&empty);
    assert_eq!((report.resources.len(), report.findings.len()), (0, 1));
    assert_eq!(report.findings[0].severity, Severity::Warning);
}

/// Given unreadable files (a link to nowhere, a folder named like a file, a pipe, a file above the limit) and links in
/// a circle, then each is reported, nothing hangs, and the other files are read.
#[cfg(unix)]
#[test]
fn s72_unreadable_files_are_reported() {
    use std::os::unix::fs::symlink;
    let dir = folder(&[
        ("good.yaml", &cluster("good")),
        ("sub/also.yaml", &cluster("also")),
    ]);
    symlink("nowhere", dir.path().join("dangling.yaml")).unwrap();
    symlink("itself.yaml", dir.path().join("itself.yaml")).unwrap();
    symlink("..", dir.path().join("sub/up")).unwrap();
    fs::create_dir(dir.path().join("folder.yaml")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(dir.path().join("pipe.yaml"))
            .status()
            .unwrap()
            .success()
    );
    let big = fs::File::create(dir.path().join("big.yaml")).unwrap();
    big.set_len(51 << 20).unwrap();

    let mut options = Options::default();
    options.codec.max_bytes = 50 << 20;
    let report = dir::load(dir.path(), &options).unwrap();
    assert_eq!(names(&report), BTreeSet::from(["good", "also"]));
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| {
            (
                f.file.strip_prefix(dir.path()).unwrap().to_str().unwrap(),
                f.rule,
            )
        })
        .collect();
    let expected = [
        ("big.yaml", "too-large"),
        ("dangling.yaml", "unreadable"),
        ("folder.yaml", "unreadable"),
        ("itself.yaml", "unreadable"),
        ("pipe.yaml", "unreadable"),
        ("sub/up", "loop"),
    ];
    assert_eq!(found, expected);
}
