//! Tests that the log lines of `oxds serve` are those of `docs/logging.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use oxds_core::resource::Cluster;
use serde_json::{Map, Value};

use crate::rollout::{client, eds_cluster};
use crate::support::{Serve, command, folder};

/// Level and fields of a message in `docs/logging.md`.
#[derive(Debug)]
struct Row {
    level: String,
    fields: BTreeSet<String>,
}

/// Returns the rows of the tables below "Messages": `| level | message | fields | meaning |`.
fn documented() -> BTreeMap<String, Row> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/logging.md");
    let page = fs::read_to_string(page).expect("a page");
    let tables = page.split("## Messages").nth(1).expect("a section");
    let mut rows = BTreeMap::new();
    for line in tables.lines().filter(|line| line.contains("| `")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let fields = cells[3].split(", ").map(|field| field.trim_matches('`'));
        let row = Row {
            level: cells[1].to_uppercase(),
            fields: fields.map(str::to_owned).collect(),
        };
        let message = cells[2].trim_matches('`').to_owned();
        let earlier = rows.insert(message, row);
        assert!(earlier.is_none(), "two rows for {line}");
    }
    assert!(rows.len() > 30, "{} rows", rows.len());
    rows
}

/// Parses the lines of a log, and compares level and fields of each with its row.
fn check(log: &str, rows: &BTreeMap<String, Row>) -> Vec<(String, Map<String, Value>)> {
    let mut seen = Vec::new();
    for line in log.lines() {
        let mut fields: Map<String, Value> = serde_json::from_str(line).expect(line);
        let mut text = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) => text,
            other => panic!("{name} is {other:?} in {line}"),
        };
        let (message, level) = (text("message"), text("level"));
        let (timestamp, target) = (text("timestamp"), text("target"));
        let is_utc = timestamp.len() == 27 && timestamp.ends_with('Z');
        assert!(is_utc && target.starts_with("oxds"), "{line}");
        match rows.get(&message) {
            Some(row) => {
                assert_eq!(level, row.level, "{line}");
                for field in fields.keys() {
                    assert!(row.fields.contains(field), "no field {field}: {line}");
                }
            }
            // A finding: file, line and column, and no field.
            None => assert!(message.contains(".yaml:") && fields.is_empty(), "{line}"),
        }
        seen.push((message, fields));
    }
    seen
}

/// Given a client that accepts a cluster, rejects its change and disconnects, and an invalid file that is fixed, then
/// each line is one of the documented messages, with its level and no field that is not documented.
#[tokio::test(flavor = "multi_thread")]
async fn json_lines_have_the_documented_fields() {
    let dir = folder(&[("a.yaml", &eds_cluster("shop"))]);
    let mut serve = command(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    serve.args(["--log-format", "json"]).arg(dir.path());
    let server = Serve::of(serve.env("RUST_LOG", "oxds=debug,oxds_server=debug"));
    let checkout = client(&server, "checkout-1");
    let mut shop = checkout.watch::<Cluster>("shop");
    shop.next().await.expect("an update");
    server.shows("/status.json", "\"acks\":1");
    // gRFC A27: gRPC clients do not support ORIGINAL_DST clusters.
    let unsupported =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    fs::write(dir.path().join("a.yaml"), unsupported).expect("written");
    server.shows("/status.json", "\"nacks\":1");
    fs::write(dir.path().join("bad.yaml"), "name: [\n").expect("written");
    server.shows("/status.json", "/bad.yaml\",\"line\"");
    fs::remove_file(dir.path().join("bad.yaml")).expect("removed");
    server.shows("/status.json", "\"findings\":[]");
    drop((shop, checkout));
    server.shows("/status.json", "\"nodes\":[]");
    server.signal("TERM");
    let (_, log) = server.end();

    let lines = check(&log, &documented());
    let fields = |message: &str| {
        let mut lines = lines.iter().rev();
        let line = lines.find(|(of, _)| of == message);
        &line.unwrap_or_else(|| panic!("no {message:?} in {log}")).1
    };
    let changed = fields("config updated");
    assert_eq!(
        (&changed["changed"], &changed["added"]),
        (&1.into(), &0.into())
    );
    assert_eq!(changed["names"], "[cds/shop]");
    let file = dir.path().join("a.yaml");
    assert_eq!(changed["origin"], format!("dir: {}", file.display()));
    for message in [
        "client connected",
        "ACK received",
        "NACK received",
        "client disconnected",
    ] {
        assert_eq!(fields(message)["node"], "checkout-1", "{message}");
    }
    for message in ["ACK received", "NACK received"] {
        assert_eq!(fields(message)["resource_type"], "cds", "{message}");
        assert_eq!(fields(message)["version"].as_str().map(str::len), Some(16));
    }
    assert_eq!(fields("client disconnected")["status"], "none");
    assert!(
        lines
            .iter()
            .any(|(message, _)| message.contains("/bad.yaml:"))
    );
    fields("all store errors resolved");
}
