//! Groups of nodes (S-74): in a folder, and as clients see them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use oxds_core::group::{Definition, GroupUpdate, NodeMatcher};
use oxds_server::dir::{self, Options};
use oxds_server::{Cache, DirStore, Server, Store, Update};
use oxds_types::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use oxds_types::{Glob, ResourceType, Version};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, SOON, cluster, until, upsert};

const EDGE: &str = "match: {cluster: edge}\n";

fn yaml(name: &str, seconds: u8) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\nconnect_timeout: {seconds}s\n"
    )
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        write(dir.path(), name, text);
    }
    dir
}

/// Returns the findings about a folder as lines, without its own path.
fn findings(dir: &TempDir) -> Vec<String> {
    let report = dir::load(dir.path(), &Options::default()).unwrap();
    let root = format!("{}/", dir.path().display());
    let lines = report.findings.iter();
    lines
        .map(|finding| finding.to_string().replace(&root, ""))
        .collect()
}

async fn next(store: &mut DirStore) -> Update {
    timeout(SOON, store.next()).await.unwrap().unwrap()
}

#[tokio::test]
async fn s74_folder_serves_groups_beside_the_root() {
    let dir = folder(&[
        ("a.yaml", &yaml("a", 1)),
        ("groups/edge/group.yaml", EDGE),
        ("groups/edge/deep/a.yaml", &yaml("a", 2)),
        ("groups/loose.yaml", &yaml("loose", 1)),
    ]);
    assert_eq!(findings(&dir), [""; 0]);
    let mut store = DirStore::open(dir.path(), Options::default()).unwrap();
    let update = next(&mut store).await;
    assert_eq!(update.changes.upserts.len(), 2, "a and loose");
    let [edge] = &*update.groups else {
        panic!("{update:?}")
    };
    assert_eq!(&*edge.name, "edge");
    let matcher = NodeMatcher {
        cluster: Some(Glob::new("edge")),
        ..NodeMatcher::default()
    };
    assert_eq!(edge.definition, Definition::Set(Box::new(matcher)));
    assert_eq!(edge.changes.upserts.len(), 1);

    // A change of a file of the group changes only the group. Without its definition the group has no nodes.
    write(dir.path(), "groups/edge/deep/a.yaml", &yaml("a", 3));
    let update = next(&mut store).await;
    assert!(update.changes.is_empty());
    assert_eq!(update.groups[0].definition, Definition::Unchanged);
    assert_eq!(update.groups[0].changes.upserts.len(), 1);
    fs::remove_file(dir.path().join("groups/edge/group.yaml")).unwrap();
    let update = next(&mut store).await;
    assert_eq!(update.groups[0].definition, Definition::Unset);
    assert_eq!(update.findings.len(), 1, "{:?}", update.findings);
}

/// Returns the clusters that nodes of this `node.cluster` see: each name and version, and the version of all.
fn seen(cache: &Cache, cluster: &str) -> (Vec<(String, Version)>, Version) {
    let node = Node {
        cluster: cluster.into(),
        ..Node::default()
    };
    let seen = cache.snapshot_for(&node);
    let clusters = seen.of_type(&ResourceType::CLUSTER).collection();
    let each = clusters.iter().map(|c| (c.name().to_string(), c.version()));
    (each.collect(), clusters.version())
}

/// Given a folder with a group, when one replica follows its changes and another reads it afterwards, as after a
/// restart, then both serve equal content with equal versions, in and outside of the group.
#[tokio::test]
async fn s29_replicas_of_a_folder_with_groups_have_equal_versions() {
    let dir = folder(&[
        ("a.yaml", &yaml("a", 1)),
        ("groups/edge/group.yaml", EDGE),
        ("groups/edge/a.yaml", &yaml("a", 2)),
    ]);
    let (followed, read) = (Cache::new(), Cache::new());
    let mut store = DirStore::open(dir.path(), Options::default()).unwrap();
    let mut follow = async |cache: &Cache| {
        let update = next(&mut store).await;
        cache.update(update.changes, update.groups);
    };
    follow(&followed).await;
    write(dir.path(), "groups/edge/a.yaml", &yaml("a", 3));
    follow(&followed).await;
    write(dir.path(), "groups/edge/b.yaml", &yaml("b", 1));
    follow(&followed).await;

    let update = next(&mut DirStore::open(dir.path(), Options::default()).unwrap()).await;
    read.update(update.changes, update.groups);
    for cluster in ["edge", "inner"] {
        assert_eq!(seen(&followed, cluster), seen(&read, cluster), "{cluster}");
    }
    assert_ne!(seen(&read, "edge").1, seen(&read, "inner").1);
}

/// Given a group with two files, when one becomes invalid while the other changes, then the last content of the first
/// stays served to the group, the error names the file, and the other change applies. When the first file is deleted,
/// its resources are removed.
#[tokio::test]
async fn s73_invalid_file_of_a_group_keeps_its_last_content() {
    let dir = folder(&[
        ("groups/edge/group.yaml", EDGE),
        ("groups/edge/a.yaml", &yaml("a", 1)),
        ("groups/edge/b.yaml", &yaml("b", 1)),
    ]);
    let cache = Cache::new();
    let mut store = DirStore::open(dir.path(), Options::default()).unwrap();
    let update = next(&mut store).await;
    cache.update(update.changes, update.groups);
    let names = || seen(&cache, "edge").0.into_iter().map(|(name, _)| name);
    let before = seen(&cache, "edge").0;

    write(dir.path(), "groups/edge/a.yaml", "name: [");
    write(dir.path(), "groups/edge/b.yaml", &yaml("b", 2));
    let update = next(&mut store).await;
    assert_eq!(update.findings.len(), 1, "{:?}", update.findings);
    assert!(update.findings[0].file.ends_with("groups/edge/a.yaml"));
    cache.update(update.changes, update.groups);
    let after = seen(&cache, "edge").0;
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1], before[1]);

    fs::remove_file(dir.path().join("groups/edge/a.yaml")).unwrap();
    let update = next(&mut store).await;
    assert_eq!(update.findings, []);
    cache.update(update.changes, update.groups);
    assert!(names().eq(["b"]));
}

/// Given a change for all nodes and one of a group, saved together, then they are one update (S-72), and a client in
/// the group gets both in one response.
#[tokio::test]
async fn s69_root_and_group_change_atomically() {
    let dir = folder(&[
        ("a.yaml", &yaml("a", 1)),
        ("groups/edge/group.yaml", EDGE),
        ("groups/edge/b.yaml", &yaml("b", 1)),
    ]);
    let store = DirStore::open(dir.path(), Options::default()).unwrap();
    let server = Running::start(Server::builder().store(store)).await;
    // The client may connect before or after the folder is loaded. Either way its stream stays open.
    let (mut stream, first) = synced(&server, "edge").await;
    assert_eq!(got(&first).len(), 2);
    write(dir.path(), "a.yaml", &yaml("a", 2));
    write(dir.path(), "groups/edge/b.yaml", &yaml("b", 2));
    let response = stream.delta().await;
    assert_eq!(got(&response).len(), 2, "both in one response");
}

#[test]
fn s74_invalid_definition_is_reported_with_its_position() {
    for (text, finding) in [
        (
            "match: {id: a, is: b}\n",
            "group.yaml:1:16: error: unknown field `is`",
        ),
        ("match: {}\n", "group.yaml: error: match is empty"),
        ("match: {id: ''}\n", "an empty pattern matches nothing"),
        ("id: a\n", "group.yaml:1:1: error: unknown field `id`"),
        ("match: [\n", "group.yaml:"),
    ] {
        let dir = folder(&[
            ("groups/edge/group.yaml", text),
            ("groups/edge/a.yaml", &yaml("a", 1)),
        ]);
        let findings = findings(&dir);
        assert_eq!(findings.len(), 1, "{text}: {findings:?}");
        assert!(findings[0].contains(finding), "{text}: {findings:?}");
    }
    let dir = folder(&[("groups/edge/a.yaml", &yaml("a", 1))]);
    let undefined = "groups/edge/group.yaml: error: no such file: the group has no nodes, so its resources are not served";
    assert_eq!(findings(&dir), [undefined]);
}

#[test]
fn s74_equally_specific_groups_cannot_share_a_name() {
    let with = |one: &str, two: &str| {
        folder(&[
            ("groups/one/group.yaml", one),
            ("groups/one/a.yaml", &yaml("a", 1)),
            ("groups/two/group.yaml", two),
            ("groups/two/a.yaml", &yaml("a", 2)),
        ])
    };
    let tie = with("match: {cluster: e*}\n", "match: {cluster: f*}\n");
    let findings_of_tie = findings(&tie);
    let [finding] = &*findings_of_tie else {
        panic!("{findings_of_tie:?}")
    };
    assert!(
        finding.starts_with("groups/two/a.yaml:1:1: error: "),
        "{finding}"
    );
    assert!(finding.contains("groups/one/a.yaml"), "{finding}");
    for (one, two) in [
        ("match: {cluster: edge}\n", "match: {cluster: e*}\n"),
        ("match: {cluster: one}\n", "match: {cluster: two}\n"),
        (
            "match: {locality: {region: eu}}\n",
            "match: {locality: {region: us}}\n",
        ),
    ] {
        assert_eq!(findings(&with(one, two)), [""; 0], "{one}{two}");
    }
}

#[tokio::test]
async fn s74_conflicting_definition_is_refused_and_the_old_one_stays() {
    let dir = folder(&[
        ("groups/one/group.yaml", "match: {cluster: one}\n"),
        ("groups/one/a.yaml", &yaml("a", 1)),
        ("groups/two/group.yaml", "match: {cluster: two}\n"),
        ("groups/two/a.yaml", &yaml("a", 2)),
    ]);
    let mut store = DirStore::open(dir.path(), Options::default()).unwrap();
    next(&mut store).await;
    write(
        dir.path(),
        "groups/two/group.yaml",
        "match: {cluster: one}\n",
    );
    let update = next(&mut store).await;
    assert!(update.groups.is_empty(), "{update:?}");
    let finding = update.findings[0].to_string();
    assert!(finding.contains("two/group.yaml: error: "), "{finding}");
    assert!(
        finding.contains("\"a\" is also in group \"one\""),
        "{finding}"
    );
    write(
        dir.path(),
        "groups/two/group.yaml",
        "match: {cluster: three}\n",
    );
    let update = next(&mut store).await;
    assert!(
        update.findings.is_empty() && update.groups.len() == 1,
        "{update:?}"
    );
}

/// Creates a wildcard request for clusters of a node of this `node.cluster`.
fn of_cluster(cluster: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node {
            id: format!("{cluster}-1"),
            cluster: cluster.into(),
            ..Node::default()
        }),
        ..subscribe(CDS, &[])
    }
}

pub(crate) fn group(name: &str, definition: Definition, clusters: &[(&str, &[u8])]) -> GroupUpdate {
    let mut changes = upsert(&[]);
    let resources = clusters
        .iter()
        .map(|(name, rest)| Arc::new(cluster(name, rest)));
    changes.upserts.extend(resources);
    GroupUpdate {
        name: name.into(),
        definition,
        changes,
    }
}

pub(crate) fn matcher(cluster: &str) -> Definition {
    Definition::Set(Box::new(NodeMatcher {
        cluster: Some(Glob::new(cluster)),
        ..NodeMatcher::default()
    }))
}

fn got(response: &DeltaDiscoveryResponse) -> Vec<(&str, usize)> {
    let resources = response.resources.iter();
    let mut got: Vec<_> = resources
        .map(|r| {
            (
                &*r.name,
                r.resource.as_ref().map_or(0, |any| any.value.len()),
            )
        })
        .collect();
    got.sort_unstable();
    got
}

async fn synced(server: &Running, cluster: &str) -> (Stream, DeltaDiscoveryResponse) {
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&of_cluster(cluster));
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    (stream, response)
}

#[tokio::test]
async fn s74_change_in_a_group_wakes_only_its_sessions() {
    let server = Running::start(Server::builder()).await;
    let edge = group("edge", matcher("edge"), &[("b", b"\x10\x01"), ("e", b"")]);
    let shop = group("shop", matcher("shop"), &[("s", b"")]);
    server.cache.update(upsert(&["a", "b"]), vec![edge, shop]);

    let (mut plain, response) = synced(&server, "plain").await;
    assert_eq!(got(&response), [("a", 3), ("b", 3)]);
    let (mut edge, response) = synced(&server, "edge").await;
    assert_eq!(got(&response), [("a", 3), ("b", 5), ("e", 3)]);
    let (mut shop, response) = synced(&server, "shop").await;
    assert_eq!(got(&response), [("a", 3), ("b", 3), ("s", 3)]);

    let before = server.cache.wakeups();
    let change = group("edge", Definition::Unchanged, &[("b", b"\x10\x01\x10\x02")]);
    server.cache.update(upsert(&[]), vec![change]);
    let response = edge.delta().await;
    assert_eq!(got(&response), [("b", 7)]);
    edge.send(&ack_delta(&response));
    assert_eq!(server.cache.wakeups() - before, 1);

    // The group has its own b, so its nodes do not see the change of the root's b.
    let mut changes = upsert(&[]);
    changes
        .upserts
        .push(Arc::new(cluster("b", b"\x10\x04\x10\x05\x10\x06")));
    server.cache.apply(changes);
    for stream in [&mut plain, &mut shop] {
        let response = stream.delta().await;
        assert_eq!(got(&response), [("b", 9)]);
        stream.send(&ack_delta(&response));
    }
    assert_eq!(
        server.cache.wakeups() - before,
        3,
        "the session of edge is not woken"
    );
    server.cache.apply(upsert(&["z"]));
    for stream in [&mut plain, &mut shop, &mut edge] {
        assert_eq!(got(&stream.delta().await), [("z", 3)]);
    }
}

#[tokio::test]
async fn s74_client_whose_groups_change_reconnects() {
    let server = Running::start(Server::builder()).await;
    let edge = group("edge", matcher("edge"), &[("e", b"")]);
    server.cache.update(upsert(&["a"]), vec![edge]);
    let (mut edge, _) = synced(&server, "edge").await;
    let (mut plain, _) = synced(&server, "plain").await;

    let widened = group("edge", matcher("*"), &[]);
    server.cache.update(upsert(&[]), vec![widened]);
    let (code, text) = plain.status().await;
    assert_eq!(code, 14, "unavailable, so that clients try again");
    assert!(text.contains("node%20groups%20changed"), "{text}");
    let (_plain, response) = synced(&server, "plain").await;
    assert_eq!(got(&response), [("a", 3), ("e", 3)]);
    // The stream of a node that was in the group before stays open.
    server.cache.apply(upsert(&["b"]));
    assert_eq!(got(&edge.delta().await), [("b", 3)]);
}

#[tokio::test]
async fn s74_status_lists_groups() {
    let server = Running::start(Server::builder()).await;
    let edge = group("edge", matcher("edge"), &[("e", b"")]);
    server.cache.update(upsert(&["a"]), vec![edge]);
    let (_edge, _) = synced(&server, "edge").await;
    let status = until("in sync", async || {
        let status = crate::admin::json(server.http).await;
        (status["nodes"][0]["in_sync"] == true).then_some(status)
    })
    .await;
    assert_eq!(status["nodes"][0]["groups"], serde_json::json!(["edge"]));
    let version = &status["groups"][0]["version"];
    assert_eq!(version.as_str().map(str::len), Some(16));
    assert_eq!(
        status["groups"],
        serde_json::json!([{"name": "edge", "version": version, "resources": 1, "not_representable": []}])
    );
}
