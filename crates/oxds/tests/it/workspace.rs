//! Rules of the workspace as a whole: licences, sources, forbidden edges between crates, a reason for each dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::repository::{read, root};

/// Output of `cargo metadata` for the packages that this machine builds.
fn metadata() -> Value {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform",
            &target,
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().expect("packages")
}

/// The list of `deny.toml`, read without a TOML parser: it is one string per line.
fn allowed_licences() -> BTreeSet<String> {
    let file = read("deny.toml");
    let list = file
        .split("\nallow = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let lines = list.expect("a list").lines();
    lines
        .filter_map(|line| {
            Some(
                line.trim()
                    .strip_prefix('"')?
                    .strip_suffix("\",")?
                    .to_owned(),
            )
        })
        .collect()
}

/// Whether an SPDX expression without nesting deeper than `(a OR b) AND c` is allowed.
fn allowed(expression: &str, licences: &BTreeSet<String>) -> bool {
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        let part = part.trim().trim_start_matches('(').trim_end_matches(')');
        part.split(" OR ")
            .any(|licence| licences.contains(licence.trim().trim_end_matches('+')))
    })
}

#[test]
fn workspace_licences_are_those_of_deny_toml() {
    let (metadata, licences) = (metadata(), allowed_licences());
    assert!(licences.contains("Apache-2.0") && !licences.contains("GPL-3.0"));
    for package in packages(&metadata) {
        let licence = text(&package["license"]);
        assert!(
            allowed(licence, &licences),
            "{}: {licence:?}",
            package["name"]
        );
    }
}

#[test]
fn licence_expressions_are_understood() {
    let licences = BTreeSet::from(["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned));
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "MIT/Apache-2.0",
    ] {
        assert!(allowed(good, &licences), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR Apache-2.0) AND GPL-3.0",
    ] {
        assert!(!allowed(bad, &licences), "{bad}");
    }
}

#[test]
fn workspace_packages_come_from_crates_io() {
    for package in packages(&metadata()) {
        let source = package["source"].as_str();
        let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
        assert!(
            source.is_none_or(|source| source == crates_io),
            "{}: {source:?}",
            package["name"]
        );
    }
}

/// The sans-IO crates depend on no runtime, and client and server do not know each other.
#[test]
fn workspace_has_no_forbidden_edge() {
    let metadata = metadata();
    let names: BTreeMap<_, _> = packages(&metadata)
        .iter()
        .map(|p| (text(&p["id"]), text(&p["name"])))
        .collect();
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().expect("nodes") {
        let normal = node["deps"].as_array().expect("deps").iter().filter(|dep| {
            let kinds = dep["dep_kinds"].as_array().expect("kinds");
            kinds.iter().any(|kind| kind["kind"].is_null())
        });
        edges.insert(
            names[text(&node["id"])],
            normal.map(|dep| names[text(&dep["pkg"])]).collect(),
        );
    }
    for (from, forbidden) in [
        (
            "oxds-types",
            &["tokio", "tonic", "tower", "hyper", "oxds-core"][..],
        ),
        (
            "oxds-core",
            &[
                "tokio",
                "tonic",
                "tower",
                "hyper",
                "rand",
                "getrandom",
                "chrono",
                "time",
            ],
        ),
        (
            "oxds-net",
            &["oxds-core", "oxds-client", "oxds-server", "oxds-channel"],
        ),
        ("oxds-client", &["oxds-server", "oxds-channel"]),
        ("oxds-server", &["oxds-client", "oxds-channel"]),
        ("oxds-channel", &["oxds-server"]),
        ("oxds-grpc-server", &["oxds-server", "oxds-channel"]),
    ] {
        for to in forbidden {
            assert!(!edges[from].contains(to), "{from} depends on {to}");
        }
    }
    for (from, to) in &edges {
        let ours = ["oxds-bench", "oxds-interop"].contains(from);
        assert!(ours || !to.contains("oxds"), "{from} depends on the binary");
    }
}

#[test]
fn workspace_dependencies_have_a_reason() {
    let metadata = metadata();
    let members: BTreeSet<_> = metadata["workspace_members"]
        .as_array()
        .expect("members")
        .iter()
        .map(text)
        .collect();
    let reasons = read("docs/dependencies.md");
    let mut missing = BTreeSet::new();
    for package in packages(&metadata)
        .iter()
        .filter(|p| members.contains(text(&p["id"])))
    {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let name = text(&dependency["name"]);
            if !name.starts_with("oxds") && !reasons.contains(&format!("| {name} |")) {
                missing.insert(name.to_owned());
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/dependencies.md has no row for {missing:?}"
    );
}

/// Given the default features of a package, returns the crates that cargo compiles for it on Linux: itself, and its normal and
/// build dependencies.
fn compiled_crates(package: &str) -> BTreeSet<String> {
    // `cargo metadata` unites the features of all members, `cargo tree -p` resolves those of one package.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--package",
            package,
            "--target",
            &target,
        ])
        .args(["--edges=normal,build", "--prefix=none", "--format={p}"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    // `name v1.2.3 (proc-macro) (*)`: name and version identify a crate, and a crate that was listed before has a star.
    let crates = listed.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?))
    });
    crates.collect()
}

/// YAML, file watching, descriptors of the API and the server's half of the protocol are features that are off for a channel.
#[test]
fn d10_channel_needs_at_most_80_crates() {
    let crates = compiled_crates("oxds-channel");
    assert!(crates.iter().any(|name| name.starts_with("oxds-channel ")));
    assert!(crates.len() <= 80, "{} crates: {crates:#?}", crates.len());
}
