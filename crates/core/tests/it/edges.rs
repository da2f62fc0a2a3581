//! Forbidden dependencies between packages (`ARCHITECTURE.md`), checked with `cargo metadata`.

use std::{collections::BTreeMap, process::Command};

/// Returns the direct dependencies of each package, without those for tests and builds.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let packages = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let needs = package["dependencies"].as_array().unwrap().iter();
            let needs = needs.filter(|needed| needed["kind"].is_null());
            (
                text(&package["name"]),
                needs.map(|needed| text(&needed["name"])).collect(),
            )
        });
    packages.collect()
}

/// Packages with runtimes, transports, clocks or randomness, which the state machines must not use.
const IMPURE: [&str; 16] = [
    "axum",
    "chrono",
    "fastrand",
    "futures-util",
    "getrandom",
    "h2",
    "hyper",
    "hyper-util",
    "notify",
    "rand",
    "time",
    "tokio",
    "tokio-util",
    "tonic",
    "tower",
    "tower-service",
];

#[test]
fn packages_have_only_allowed_dependencies() {
    let needs = dependencies();
    let forbidden = |package: &str, others: &[&str]| {
        for other in others {
            let found = needs
                .get(package)
                .is_some_and(|needs| needs.iter().any(|n| n == other));
            assert!(
                !found,
                "{package} may not depend on {other}: ARCHITECTURE.md shows the edges"
            );
        }
    };
    assert!(needs.contains_key("oxds-core") && needs.contains_key("oxds-types"));
    forbidden("oxds-core", &IMPURE);
    forbidden("oxds-core", &["oxds-etcd"]);
    forbidden("oxds-etcd", &IMPURE);
    forbidden("oxds-settings", &["tokio", "oxds-types"]);
    forbidden("oxds-types", &["tokio", "tonic", "hyper", "oxds-core"]);
    forbidden("oxds-apicheck", &["tokio", "tonic", "hyper", "oxds-core"]);
    forbidden("oxds-client", &["oxds-server", "oxds-channel"]);
    forbidden("oxds-server", &["oxds-client", "oxds-channel"]);
    forbidden("oxds-channel", &["oxds-server"]);
    for package in needs.keys().filter(|package| *package != "oxds") {
        forbidden(package, &["oxds"]);
    }
}
