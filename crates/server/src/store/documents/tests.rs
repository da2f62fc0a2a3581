//! Tests of merging without files.

use std::path::Path;
use std::sync::Arc;

use oxds_core::group::Definition;
use oxds_types::lifecycle::{Clock, Policy};
use oxds_types::runtime::{Layer, Snapshot, Source};

use super::{Document, DocumentOptions, Documents, Edits};
use crate::store::{Finding, Severity, Update};

/// Documents below the root `/shop`, which need not exist.
struct Fixture(Documents);

impl Fixture {
    fn new() -> Self {
        Self::with(DocumentOptions::default())
    }

    fn with(options: DocumentOptions) -> Self {
        Self(Documents::new(Path::new("/shop"), options))
    }

    fn document(&self, id: &str, text: &str) -> Document {
        let id: Arc<Path> = Path::new("/shop").join(id).into();
        self.0.decoder().decode(id, text.as_bytes())
    }

    fn put(&mut self, documents: &[(&str, &str)]) -> Update {
        let mut edits = Edits::default();
        for (id, text) in documents {
            edits = edits.put(self.document(id, text));
        }
        self.0.apply(edits)
    }

    fn delete(&mut self, id: &str) -> Update {
        self.0
            .apply(Edits::default().delete(Path::new("/shop").join(id)))
    }
}

fn cluster(name: &str) -> String {
    format!("\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\n")
}

fn route(cluster: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\n\
         virtual_hosts: [{{name: v, domains: [\"*\"], routes: [{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}]}}]\n"
    )
}

fn upserts(update: &Update) -> Vec<&str> {
    let upserts = update.changes.upserts.iter();
    upserts.map(|resource| &**resource.name()).collect()
}

fn removals(update: &Update) -> Vec<&str> {
    let removals = update.changes.removals.iter();
    removals.map(|(_, name)| &**name).collect()
}

fn rules(update: &Update) -> Vec<(&str, &str)> {
    let findings = update.findings.iter();
    let rule = findings.map(|f| {
        (
            f.file.strip_prefix("/shop").unwrap().to_str().unwrap(),
            f.rule,
        )
    });
    rule.collect()
}

#[test]
fn s69_update_names_the_documents_that_changed() {
    let mut documents = Fixture::new();
    documents.put(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let edits = Edits::default().put(documents.document("b.yaml", &cluster("c")));
    let update = documents.0.apply(edits.delete(Path::new("/shop/a.yaml")));
    assert_eq!(
        update.origin.to_string(),
        "unnamed store: /shop/a.yaml, /shop/b.yaml"
    );
    assert_eq!(documents.0.ids().len(), 1);
}

/// Given a served document, when its new content is invalid, then the last valid content stays and the error is
/// reported; a valid document of the same edits applies.
#[test]
fn s73_invalid_document_keeps_its_last_content() {
    let mut documents = Fixture::new();
    documents.put(&[("a.yaml", &cluster("a"))]);
    let update = documents.put(&[("a.yaml", "name: [unclosed\n"), ("b.yaml", &cluster("b"))]);
    assert_eq!((upserts(&update), removals(&update)), (vec!["b"], vec![]));
    assert_eq!(rules(&update), [("a.yaml", "syntax")]);

    let update = documents.delete("a.yaml");
    assert_eq!(removals(&update), ["a"]);
    assert!(update.findings.is_empty());
}

#[test]
fn s73_unreadable_document_keeps_its_last_content() {
    let mut documents = Fixture::new();
    documents.put(&[("a.yaml", &cluster("a"))]);
    let id = Path::new("/shop/a.yaml");
    let unreadable =
        Document::unreadable(id, Finding::for_file(id, "unreadable", "permission denied"));
    let update = documents.0.apply(Edits::default().put(unreadable));
    assert!(update.changes.is_empty());
    assert_eq!(rules(&update), [("a.yaml", "unreadable")]);
}

/// Given a name that a second document takes, then it stays with the first; when the first is deleted, the second is
/// served without being read again.
#[test]
fn s72_name_has_one_owner_and_passes_on_deletion() {
    let mut documents = Fixture::new();
    documents.put(&[("b.yaml", &cluster("x"))]);
    let update = documents.put(&[("a.yaml", &cluster("x"))]);
    assert!(update.changes.is_empty());
    assert_eq!(rules(&update), [("a.yaml", "duplicate")]);

    let update = documents.delete("b.yaml");
    assert_eq!((upserts(&update), rules(&update)), (vec!["x"], vec![]));
}

#[test]
fn s72_two_names_are_swapped_between_documents_at_once() {
    let mut documents = Fixture::new();
    documents.put(&[("a.yaml", &cluster("x")), ("b.yaml", &cluster("y"))]);
    let update = documents.put(&[("a.yaml", &cluster("y")), ("b.yaml", &cluster("x"))]);
    assert_eq!(upserts(&update), ["y", "x"]);
    assert!(update.findings.is_empty());
}

/// Given a route to a cluster that does not exist, then there is a warning, or an error with `strict`; when the cluster
/// is added, then the finding goes, though the document with the route did not change.
#[test]
fn s70_dangling_reference_follows_its_target() {
    for (strict, severity) in [(false, Severity::Warning), (true, Severity::Error)] {
        let mut documents = Fixture::with(DocumentOptions {
            strict,
            ..DocumentOptions::default()
        });
        let update = documents.put(&[("r.yaml", &route("a"))]);
        assert_eq!(rules(&update), [("r.yaml", "dangling")]);
        assert_eq!(update.findings[0].severity, severity);
        assert_eq!(
            update.findings[0].message,
            "rds \"r\" refers to cds \"a\", which does not exist"
        );
        let update = documents.put(&[("a.yaml", &cluster("a"))]);
        assert!(update.findings.is_empty());
    }
}

/// Given a document of a group without a definition, then that is an error; the definition can come later, and be
/// deleted.
#[test]
fn s74_group_needs_a_definition() {
    let mut documents = Fixture::new();
    let update = documents.put(&[("groups/edge/a.yaml", &cluster("a"))]);
    assert_eq!(rules(&update), [("groups/edge/group.yaml", "group")]);
    let group = &update.groups[0];
    assert_eq!((&*group.name, group.changes.upserts.len()), ("edge", 1));

    let update = documents.put(&[("groups/edge/group.yaml", "match: {id: edge-*}\n")]);
    assert!(update.findings.is_empty());
    assert!(matches!(update.groups[0].definition, Definition::Set(_)));

    let update = documents.delete("groups/edge/group.yaml");
    assert!(matches!(update.groups[0].definition, Definition::Unset));
    assert_eq!(rules(&update), [("groups/edge/group.yaml", "group")]);
}

#[test]
fn s74_equally_specific_groups_cannot_share_a_name() {
    let mut documents = Fixture::new();
    let update = documents.put(&[
        ("groups/a/group.yaml", "match: {id: a-*}\n"),
        ("groups/b/group.yaml", "match: {id: \"*-b\"}\n"),
        ("groups/a/x.yaml", &cluster("x")),
        ("groups/b/x.yaml", &cluster("x")),
    ]);
    assert_eq!(rules(&update), [("groups/b/x.yaml", "duplicate")]);
}

#[test]
fn s73_source_findings_are_in_each_update() {
    let mut documents = Fixture::new();
    let lost = Finding::for_file(Path::new("/shop/sub"), "unreadable", "permission denied");
    documents.0.set_source_findings(vec![lost]);
    for _ in 0..2 {
        let update = documents.put(&[("a.yaml", &cluster("a"))]);
        assert_eq!(rules(&update), [("sub", "unreadable")]);
    }
    documents.0.set_source_findings(Vec::new());
    assert!(documents.put(&[]).findings.is_empty());
}

#[test]
fn s72_no_documents_is_a_warning() {
    let update = Fixture::new().put(&[]);
    assert_eq!(rules(&update), [("", "empty")]);
    assert_eq!(update.findings[0].severity, Severity::Warning);
}

fn strict() -> Fixture {
    Fixture::with(DocumentOptions {
        strict: true,
        ..DocumentOptions::default()
    })
}

/// Given a chain listener, route, cluster without the cluster, then nothing of the chain is served, and each finding
/// names the cause. With the cluster all of it is.
#[test]
fn s70_strict_serves_a_chain_only_as_a_whole() {
    let listener = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\nname: l\napi_listener: {api_listener: \
        {\"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, \
        stat_prefix: s, rds: {route_config_name: r, config_source: {ads: {}}}}}\n";
    let mut documents = strict();
    let update = documents.put(&[("l.yaml", listener), ("r.yaml", &route("c"))]);
    assert_eq!(upserts(&update), [""; 0]);
    assert_eq!(
        rules(&update),
        [("l.yaml", "dangling"), ("r.yaml", "dangling")]
    );
    let message = &update.findings[0].message;
    assert!(
        message.contains("not served because of the errors in /shop/r.yaml"),
        "{message}"
    );
    let mut update = documents.put(&[("c.yaml", &cluster("c"))]);
    assert_eq!(rules(&update), []);
    update
        .changes
        .upserts
        .sort_by(|a, b| a.name().cmp(b.name()));
    assert_eq!(upserts(&update), ["c", "l", "r"]);
}

/// Given a cluster that a served route needs, and another document that is new and needs it too, when the cluster's
/// document drops it, then this is refused, and the new document is served.
#[test]
fn s70_refused_removal_does_not_refuse_others() {
    let mut documents = strict();
    documents.put(&[("c.yaml", &cluster("c")), ("r.yaml", &route("c"))]);
    let other = route("c").replace("name: r\n", "name: s\n");
    let update = documents.put(&[("c.yaml", &cluster("x")), ("s.yaml", &other)]);
    assert_eq!(upserts(&update), ["s"]);
    assert_eq!(rules(&update), [("c.yaml", "dangling")]);
    let update = documents.delete("c.yaml");
    assert_eq!(
        (removals(&update).len(), rules(&update)),
        (0, vec![("c.yaml", "dangling")])
    );
    documents.delete("r.yaml");
    let update = documents.delete("s.yaml");
    assert_eq!(
        removals(&update),
        ["c", "s"],
        "the deletion of c.yaml follows"
    );
    assert_eq!(
        update.findings.len(),
        1,
        "no resources are left: {:?}",
        update.findings
    );
}

/// A cluster with a deprecated field.
fn deprecated(name: &str) -> String {
    format!("{}http2_protocol_options: {{}}\n", cluster(name))
}

fn runtime(key: &str, value: bool) -> Snapshot {
    let layer = Layer::new("test", Source::Static).with(key, value).unwrap();
    Snapshot::from_layers(vec![layer])
}

const HTTP2_KEY: &str =
    "envoy.deprecated_features:envoy.config.cluster.v3.Cluster.http2_protocol_options";

/// Given files with and without a deprecated field, when a runtime key disallows it and allows it again, then the file
/// that has it is read again, and no other one. While it is disallowed, its last content stays served.
#[test]
fn v45_runtime_change_concerns_only_files_with_the_field() {
    let mut documents = Fixture::new();
    let update = documents.put(&[("a.yaml", &cluster("a")), ("b.yaml", &deprecated("b"))]);
    assert_eq!(update.notices.deprecated, 1);
    assert_eq!(rules(&update), [("b.yaml", "deprecated")]);

    let id: Arc<Path> = Path::new("/shop/b.yaml").into();
    let policy = Policy::new(runtime(HTTP2_KEY, false), Clock::default());
    assert_eq!(documents.0.set_policy(&policy), [Arc::clone(&id)]);
    let update = documents.put(&[("b.yaml", &deprecated("b"))]);
    assert!(update.changes.is_empty(), "the last content stays served");
    assert_eq!(update.findings[0].severity, Severity::Error);
    assert_eq!(update.notices.deprecated, 0, "a refused use is not counted");

    assert!(
        documents.0.set_policy(&policy).is_empty(),
        "nothing changed"
    );
    assert_eq!(documents.0.set_policy(&Policy::default()), [id]);
    let update = documents.put(&[("b.yaml", &deprecated("b"))]);
    assert_eq!(update.findings[0].severity, Severity::Warning);

    let update = documents.put(&[("b.yaml", &cluster("b"))]);
    assert!(update.deprecated_uses.is_empty());
    assert!(
        documents
            .0
            .set_policy(&Policy::new(runtime(HTTP2_KEY, false), Clock::default()))
            .is_empty()
    );
}

/// Given a file that uses a deprecated field, when it gets a syntax error, then its uses stay in the fleet view as its
/// last content stays served; when it is deleted, they leave.
#[test]
fn v44_uses_follow_the_served_content() {
    let mut documents = Fixture::new();
    documents.put(&[("a.yaml", &deprecated("a"))]);
    let update = documents.put(&[("a.yaml", "name: [")]);
    assert_eq!(update.deprecated_uses.documents().count(), 1);
    let update = documents.delete("a.yaml");
    assert!(update.deprecated_uses.is_empty());
}

/// Given a file that uses one deprecated field in many resources, then it has one log line.
#[test]
fn v44_log_has_one_line_per_field_and_file() {
    let mut documents = Fixture::new();
    let many: String = ["a", "b", "c"]
        .iter()
        .map(|name| format!("---\n{}", deprecated(name)))
        .collect();
    let update = documents.put(&[("a.yaml", &many), ("b.yaml", &deprecated("d"))]);
    assert_eq!(update.findings.len(), 4);
    let keys: std::collections::BTreeSet<_> =
        update.findings.iter().map(Finding::log_key).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
}
