//! Rules about dependencies: licences, sources, edges between crates that are forbidden, a reason for each, and how
//! many a channel needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::repository::{output, read, rust_files};

/// Most crates that `cargo build -p oxds-channel` compiles. YAML, file watching, descriptors of the API and the
/// server's half of the protocol are features that are off for a channel.
const CHANNEL: usize = 80;

/// Edges that must not exist. The sans-IO crates depend on no runtime, and client and server do not know each other.
const FORBIDDEN: [(&str, &[&str]); 7] = [
    (
        "oxds-types",
        &["tokio", "tonic", "tower", "hyper", "oxds-core"],
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
];

/// Packages that may depend on the binary.
const USERS_OF_THE_BINARY: [&str; 2] = ["oxds-bench", "oxds-interop"];

/// Returns what is wrong with the dependencies of the workspace.
pub(crate) fn check() -> Vec<String> {
    let target = target();
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        &target,
    ]);
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let mut findings = licences(&metadata, &allowed_licences(&read("deny.toml")));
    findings.extend(sources(&metadata));
    findings.extend(forbidden_edges(&metadata));
    findings.extend(reasons(&metadata, &read("docs/dependencies.md")));
    findings.extend(many_crates("oxds-channel", CHANNEL));
    let features = [
        "tree",
        "--locked",
        "--workspace",
        "--prefix=none",
        "--format={p} {f}",
    ];
    let without_tests = cargo(&[&features[..], &["--edges=no-dev"]].concat());
    findings.extend(features_of_tests(&without_tests, &cargo(&features)));
    findings.extend(unused(&metadata));
    findings
}

/// The platform that the rules are about.
fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn cargo(arguments: &[&str]) -> String {
    output(env!("CARGO"), arguments)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The list of `deny.toml`, read without a TOML parser: it is one string per line.
fn allowed_licences(file: &str) -> BTreeSet<String> {
    let list = file
        .split("\nallow = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let lines = list.expect("a list").lines();
    let names = lines.filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    names.map(str::to_owned).collect()
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

/// Packages whose licences `deny.toml` does not allow.
fn licences(metadata: &Value, licences: &BTreeSet<String>) -> Vec<String> {
    let packages = list(&metadata["packages"]).iter();
    let wrong = packages.filter(|package| !allowed(text(&package["license"]), licences));
    wrong
        .map(|package| {
            format!(
                "{}: deny.toml does not allow the licence {}",
                text(&package["name"]),
                package["license"]
            )
        })
        .collect()
}

/// Packages that are neither ours nor from crates.io.
fn sources(metadata: &Value) -> Vec<String> {
    let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
    let packages = list(&metadata["packages"]).iter();
    let wrong = packages.filter(|package| {
        let source = package["source"].as_str();
        source.is_some_and(|source| source != crates_io)
    });
    wrong
        .map(|package| {
            format!(
                "{}: comes from {}, not from crates.io",
                text(&package["name"]),
                package["source"]
            )
        })
        .collect()
}

/// Normal dependencies that [`FORBIDDEN`] has, or that lead to the binary.
fn forbidden_edges(metadata: &Value) -> Vec<String> {
    let packages = list(&metadata["packages"]).iter();
    let names: BTreeMap<_, _> = packages
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let mut findings = Vec::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let from = names[text(&node["id"])];
        let normal = list(&node["deps"]).iter().filter(|dependency| {
            let kinds = list(&dependency["dep_kinds"]).iter();
            kinds.into_iter().any(|kind| kind["kind"].is_null())
        });
        for to in normal.map(|dependency| names[text(&dependency["pkg"])]) {
            let mut edges = FORBIDDEN.iter().filter(|(package, _)| *package == from);
            let is_forbidden = edges.any(|(_, targets)| targets.contains(&to));
            if is_forbidden || to == "oxds" && !USERS_OF_THE_BINARY.contains(&from) {
                findings.push(format!("{from} must not depend on {to}"));
            }
        }
    }
    findings
}

/// Dependencies of the workspace without a row in the table of `docs/dependencies.md`.
fn reasons(metadata: &Value, page: &str) -> BTreeSet<String> {
    let members: BTreeSet<_> = list(&metadata["workspace_members"])
        .iter()
        .map(text)
        .collect();
    let packages = list(&metadata["packages"]).iter();
    let ours = packages.filter(|package| members.contains(text(&package["id"])));
    let dependencies = ours.flat_map(|package| list(&package["dependencies"]));
    let names = dependencies.map(|dependency| text(&dependency["name"]));
    let missing =
        names.filter(|name| !name.starts_with("oxds") && !page.contains(&format!("| {name} |")));
    missing
        .map(|name| format!("docs/dependencies.md has no row for {name}"))
        .collect()
}

/// Given the default features of a package, returns a finding if cargo compiles more crates than this for it on Linux:
/// itself, and its normal and build dependencies.
fn many_crates(package: &str, most: usize) -> Option<String> {
    // `cargo metadata` unites the features of all members, `cargo tree -p` resolves those of one package.
    let listed = cargo(&[
        "tree",
        "--locked",
        "--package",
        package,
        "--target",
        &target(),
        "--edges=normal,build",
        "--prefix=none",
        "--format={p}",
    ]);
    // `name v1.2.3 (proc-macro) (*)`: name and version identify a crate, and a crate that was listed before has a star.
    let crates = listed.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?))
    });
    let crates: BTreeSet<_> = crates.collect();
    let count = crates.len();
    if !crates.iter().any(|(name, _)| *name == package) {
        return Some(format!("cargo tree does not list {package}"));
    }
    (count > most)
        .then(|| format!("{package} needs {count} crates, at most {most} are allowed: {crates:?}"))
}

/// `cargo test`, `build` and `doc` of the whole workspace turn the same features on, so that each takes what the other
/// has built: what a test turns on, oxds-interop turns on, too. Both texts have a line for each package with its
/// features.
fn features_of_tests(without_tests: &str, with_tests: &str) -> Vec<String> {
    let packages = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
        lines.map(str::to_owned).collect()
    };
    let with_tests = packages(with_tests);
    let fewer = packages(without_tests)
        .into_iter()
        .filter(|line| !with_tests.contains(line));
    fewer
        .map(|line| {
            format!("only tests turn on more features of this package; turn them on in interop/Cargo.toml, too: {line}")
        })
        .collect()
}

/// Text of a source file with the pages whose examples it compiles, or `None` if it cannot be read.
fn code_with_pages(file: &Path) -> Option<String> {
    let mut code = fs::read_to_string(file).ok()?;
    let pages: Vec<_> = code
        .split("include_str!(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|page| page.ends_with(".md"))
        .filter_map(|page| fs::read_to_string(file.with_file_name(page)).ok())
        .collect();
    code.extend(pages);
    Some(code)
}

/// Dependencies that no file of their package names. A normal dependency must be named in `src` (or in the build
/// script), one of tests also in `tests`, `examples` or `benches`.
fn unused(metadata: &Value) -> Vec<String> {
    let members: BTreeSet<_> = list(&metadata["workspace_members"])
        .iter()
        .map(text)
        .collect();
    let packages = list(&metadata["packages"]).iter();
    let mut findings = Vec::new();
    for package in packages.filter(|package| members.contains(text(&package["id"]))) {
        let folder = Path::new(text(&package["manifest_path"])).with_file_name("");
        let code = |folders: &[&str]| -> String {
            let files = folders
                .iter()
                .map(|name| folder.join(name))
                .filter(|path| path.is_dir());
            let files = files
                .flat_map(|path| rust_files(&path))
                .chain([folder.join("build.rs")]);
            files.filter_map(|file| code_with_pages(&file)).collect()
        };
        let sources = code(&["src"]);
        let all = code(&["src", "tests", "examples", "benches"]);
        for dependency in list(&package["dependencies"]) {
            let name = text(&dependency["name"]);
            let files = if dependency["kind"] == "dev" {
                &all
            } else {
                &sources
            };
            let is_named = || names_crate(files, library(metadata, name));
            // Tests turn features of their own package on by a dependency on it.
            if dependency["name"] != package["name"] && !is_named() {
                findings.push(format!(
                    "{}: no code names the dependency {name}",
                    text(&package["name"])
                ));
            }
        }
    }
    findings
}

/// Name of a package's library, which may differ from that of the package.
fn library<'a>(metadata: &'a Value, package: &'a str) -> &'a str {
    let mut packages = list(&metadata["packages"]).iter();
    let found = packages.find(|found| found["name"] == package);
    let mut targets = found
        .into_iter()
        .flat_map(|package| list(&package["targets"]));
    let is_library = |target: &&Value| {
        let kinds = list(&target["kind"]).iter().map(text);
        kinds
            .into_iter()
            .any(|kind| kind.contains("lib") || kind == "proc-macro")
    };
    targets
        .find(is_library)
        .map_or(package, |target| text(&target["name"]))
}

/// Whether code names a crate, as a whole word.
fn names_crate(code: &str, name: &str) -> bool {
    let name = name.replace('-', "_");
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(&name).any(|(at, _)| {
        !is_word(code[..at].chars().next_back()) && !is_word(code[at + name.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn licences_are_read_from_deny_toml() {
        let licences = allowed_licences(&read("deny.toml"));
        assert!(licences.contains("Apache-2.0") && !licences.contains("GPL-3.0"));
    }

    /// Metadata of one member, `oxds-core`, and a package that it depends on.
    fn metadata(name: &str, licence: &str, source: &str) -> Value {
        json!({
            "packages": [
                { "id": "1", "name": "oxds-core", "license": "MIT", "source": null, "dependencies": [{ "name": name }] },
                { "id": "2", "name": name, "license": licence, "source": source, "dependencies": [] },
            ],
            "workspace_members": ["1"],
            "resolve": { "nodes": [{ "id": "1", "deps": [{ "pkg": "2", "dep_kinds": [{ "kind": null }] }] }] },
        })
    }

    #[test]
    fn wrong_dependency_breaks_each_rule() {
        let mit = BTreeSet::from(["MIT".to_owned()]);
        let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
        let good = metadata("bytes", "MIT", crates_io);
        assert_eq!(licences(&good, &mit), Vec::<String>::new());
        assert_eq!(sources(&good), Vec::<String>::new());
        assert_eq!(forbidden_edges(&good), Vec::<String>::new());
        assert_eq!(reasons(&good, "| bytes | core | bodies |"), BTreeSet::new());

        let bad = metadata("tokio", "GPL-3.0", "git+https://example.com/tokio");
        assert_eq!(
            licences(&bad, &mit),
            ["tokio: deny.toml does not allow the licence \"GPL-3.0\""]
        );
        assert_eq!(
            sources(&bad),
            ["tokio: comes from \"git+https://example.com/tokio\", not from crates.io"]
        );
        assert_eq!(
            forbidden_edges(&bad),
            ["oxds-core must not depend on tokio"]
        );
        let missing = reasons(&bad, "| bytes | core | bodies |");
        assert!(missing.contains("docs/dependencies.md has no row for tokio"));
        assert_eq!(
            forbidden_edges(&metadata("oxds", "MIT", crates_io)),
            ["oxds-core must not depend on oxds"]
        );
    }

    #[test]
    fn features_that_only_tests_turn_on_are_found() {
        let (alone, tested) = (
            "a v1.0.0 std\nb v1.0.0 x",
            "a v1.0.0 std\nb v1.0.0 x,y (*)\nc v1.0.0 z",
        );
        let found = features_of_tests(alone, tested);
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with(": b v1.0.0 x"), "{found:?}");
    }

    #[test]
    fn crates_are_found_as_whole_words() {
        let code = "use tokio_stream::StreamExt; fn f() { http::Uri::default(); }";
        for used in ["tokio-stream", "http"] {
            assert!(names_crate(code, used), "{used}");
        }
        for unused in ["tokio", "http-body", "stream"] {
            assert!(!names_crate(code, unused), "{unused}");
        }
    }

    #[test]
    fn too_many_crates_are_a_finding() {
        assert_eq!(many_crates("xtask", 100), None);
        let finding = many_crates("xtask", 1).expect("a finding");
        assert!(finding.contains("xtask needs"), "{finding}");
    }
}
