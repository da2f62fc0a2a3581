//! Tests that the names which a running server shows are words of the glossary, or terms of xDS, gRPC, Prometheus and
//! the operating system: its metrics, its JSON pages, and what commands print about it. `cargo xtask faces` checks all
//! names in the sources and pages.

#[path = "../../../../xtask/src/faces/vocabulary.rs"]
mod vocabulary;

use std::collections::BTreeMap;
use std::fs;

use oxds_core::resource::Cluster;
use serde_json::Value;

use crate::rollout::{client, eds_cluster};
use crate::support::{Serve, cluster, folder, oxds};
use vocabulary::Vocabulary;

/// Names with the places where they were found.
type Names = BTreeMap<String, String>;

/// Fails if a name has a word that is in neither list.
#[track_caller]
fn check(names: &Names) {
    let read = |file: &str| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        fs::read_to_string(format!("{root}{file}")).expect(file)
    };
    let vocabulary = Vocabulary::new(&read("ARCHITECTURE.md"), &read("xtask/src/faces/terms.txt"));
    let unknown = names.iter().filter_map(|(name, place)| {
        let words = vocabulary.unknown(name);
        (!words.is_empty()).then(|| format!("{name} ({place}): {words:?}"))
    });
    let unknown: Vec<_> = unknown.collect();
    assert!(
        unknown.is_empty(),
        "neither in the glossary nor terms: {unknown:#?}"
    );
}

/// Objects whose keys are names of resources, layers or loads, and not ours.
const NAMED: [&str; 6] = [
    "drops",
    "entries",
    "metrics",
    "resources",
    "lanes",
    "statuses",
];

/// Adds the keys of all objects in a JSON value.
fn add_keys(value: &Value, place: &str, names: &mut Names) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                names.insert(key.clone(), place.to_owned());
                if let (true, Value::Object(named)) = (NAMED.contains(&key.as_str()), member) {
                    named.values().for_each(|one| add_keys(one, place, names));
                } else {
                    add_keys(member, place, names);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_keys(item, place, names)),
        _ => {}
    }
}

/// Returns a server with what fills its pages: a group, an error, a deprecated field, a client that NACKs, and a
/// rollback. The client stays connected until its watch, the last part, is dropped.
async fn busy() -> (Serve, [tempfile::TempDir; 2], impl Sized) {
    let deprecated = cluster("old") + "http2_protocol_options: {}\n";
    let dir = folder(&[
        ("a.yaml", &eds_cluster("shop")),
        ("deprecated.yaml", &deprecated),
        ("groups/edge/group.yaml", "match: { id: edge-* }\n"),
        ("groups/edge/b.yaml", &cluster("b")),
    ]);
    let kept = folder(&[]);
    let state = kept.path().display().to_string();
    let options = ["--on-nack", "rollback", "--runtime", "shop.mode=gold"];
    let options = options.into_iter().chain(["--state", &state]);
    let server = Serve::with(dir.path(), options);
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("a resource");
    server.shows("/status.json", "\"acks\":1");
    let unsupported =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    fs::write(dir.path().join("a.yaml"), unsupported).expect("written");
    server.shows("/status.json", "\"nacked_by\":[\"checkout-1\"]");
    fs::write(dir.path().join("bad.yaml"), "name: [\n").expect("written");
    server.shows("/status.json", "/bad.yaml\",\"line\"");
    (server, [dir, kept], watch)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_a_live_server_are_terms() {
    let (server, [dir, _state], _watch) = busy().await;
    let mut names = Names::new();
    for path in [
        "/status.json",
        "/history.json",
        "/deprecations.json",
        "/runtime",
    ] {
        let page = server.page(path);
        let (_, body) = page.split_once("\r\n\r\n").expect("a body");
        let begin = body.find('{').expect("an object");
        let end = body.rfind('}').expect("an object");
        let value = serde_json::from_str(&body[begin..=end]).expect("JSON");
        add_keys(&value, path, &mut names);
    }
    let (grpc, dir) = (server.grpc.to_string(), dir.path().display().to_string());
    for arguments in [
        &["status", "--server", &grpc, "-o", "json"][..],
        &["deprecations", "--server", &grpc, "--format", "json"],
        &["runtime", "--server", &grpc, "-o", "json"],
        &["validate", &dir, "--format", "json"],
        &["plan", &dir, "--server", &grpc, "--format", "json"],
    ] {
        let printed = oxds(arguments);
        let value = serde_json::from_str(&printed.stdout);
        add_keys(
            &value.unwrap_or_else(|_| panic!("{printed:#?}")),
            arguments[0],
            &mut names,
        );
    }
    for expected in [
        "nacked_by",
        "rolled_back_to",
        "held_back_total",
        "verdict",
        "layers",
    ] {
        assert!(names.contains_key(expected), "no {expected}: {names:?}");
    }
    check(&names);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_a_live_server_are_terms() {
    let (server, _folders, _watch) = busy().await;
    let mut names = Names::new();
    for line in server.page("/metrics").lines() {
        // A sample, `name{label="value"} 1`, or its name and type.
        let sample = line
            .trim_start_matches("# TYPE ")
            .trim_start_matches("# HELP ");
        if !sample.starts_with("oxds_") {
            continue;
        }
        let (name, rest) = sample.split_once(['{', ' ']).unwrap_or((sample, ""));
        names.insert(name.to_owned(), "/metrics".to_owned());
        if line.contains('{') {
            let labels = rest.split("=\"").map(|part| part.rsplit([',', '"']).next());
            for label in labels.flatten().filter(|label| !label.contains(['}', ' '])) {
                names.insert(label.to_owned(), format!("label of {name}"));
            }
        }
    }
    for expected in ["oxds_nacks_total", "resource_type", "protocol"] {
        assert!(names.contains_key(expected), "no {expected}: {names:?}");
    }
    check(&names);
}
