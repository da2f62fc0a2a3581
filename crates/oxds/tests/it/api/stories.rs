//! User stories of the versioning policy, end to end (V-61): a tree and its tools, a server, and clients of several
//! versions. "Deprecate a field" is in `lifecycle`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use oxds_apicheck::descriptors::descriptor_set;
use oxds_apicheck::input::{self, Input, LoadOptions};
use oxds_client::{Bootstrap, Options, RawWatch, Update, XdsClient};
use oxds_server::translate::{self, Translator};
use oxds_server::{
    Cache, Call, ChangeSet, ClientApi, FieldCatalogue, HookFuture, Node, Observer, OlderMajors,
    Request, Requirement, Resource, ResourceType, SemVer, Server, Status, Support,
};
use oxds_types::codec::descriptor_pool;
use oxds_types::discovery::Any;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use tokio::time::timeout;

use super::{api, commit, git};
use crate::observe::Watching;
use crate::support::{Serve, TIMEOUT, cluster, command, folder, oxds, until};

const FOO: &str = "acme/blah/v3/foo.proto";

/// A repository with these files on main, the next major that they need and versions of all files, and a branch.
fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = folder(files);
    git(dir.path(), &["init", "-q"]);
    commit(dir.path(), "one", "2026-01-01T00:00:00Z");
    api("next-major", dir.path(), &[]).expect(0, &[]);
    api("bump", dir.path(), &["--fix", "--init"]).expect(0, &[]);
    commit(dir.path(), "two", "2026-01-02T00:00:00Z");
    git(dir.path(), &["checkout", "-qb", "change"]);
    dir
}

fn edit(dir: &Path, path: &str, from: &str, to: &str) {
    let path = dir.join(path);
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.contains(from), "no {from:?} in {text}");
    fs::write(path, text.replace(from, to)).expect("written");
}

/// The descriptors of a tree, as its generated code has them.
fn pool(dir: &Path) -> DescriptorPool {
    let tree = input::load(&Input::Folder(dir.to_owned()), &LoadOptions::default());
    let tree = tree.unwrap_or_else(|_| panic!("{} is no tree", dir.display()));
    descriptor_pool(&descriptor_set(&tree)).expect("descriptors")
}

fn of(message: &str) -> ResourceType {
    ResourceType::from_message(message).0
}

/// A cache of these messages, which serves them in v3, too.
fn cache(pool: &DescriptorPool, newest: &[&str]) -> Cache {
    let v3 = "v3".parse().expect("a major");
    let options = translate::Options::default();
    let to_v3 = Translator::new(pool.clone(), pool.clone(), v3, options).expect("consistent");
    let majors = OlderMajors::new(newest.iter().map(|one| of(one)), [Arc::new(to_v3)]);
    Cache::with_majors(Default::default(), majors.expect("older majors"))
}

/// Starts a server on the runtime of the test, and returns its address.
async fn serve(cache: &Cache, fields: FieldCatalogue, found: &Found) -> String {
    let found = Arc::clone(found);
    let hooks = move |_: &Call| {
        Ok(Recorder {
            node: Node::default(),
            fields: fields.clone(),
            found: Arc::clone(&found),
        })
    };
    let server = Server::builder().cache(cache.clone()).hooks(hooks);
    let server = server.bind().await.expect("a free port");
    let address = server.grpc_addr().to_string();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Whether each client, by its node id, supports the new field.
type Found = Arc<Mutex<BTreeMap<String, Support>>>;

/// An observer that records whether its client supports `bar`.
struct Recorder {
    node: Node,
    fields: FieldCatalogue,
    found: Found,
}

impl Observer for Recorder {
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        self.node = node.clone();
        Box::pin(std::future::ready(Ok(node)))
    }

    fn request(&mut self, request: &Request) -> Result<(), Status> {
        let client = ClientApi::of(&self.node).with_versions(request.versioned_type_urls());
        let support = client.supports(&self.fields, BAR);
        // The first request of a type has the versions.
        let mut found = self.found.lock().expect("not poisoned");
        found.entry(self.node.id.clone()).or_insert(support);
        Ok(())
    }
}

/// A client that watches one resource, with the descriptors of its own version of the API.
struct Client {
    watch: RawWatch,
    pool: DescriptorPool,
}

impl Client {
    /// Watches the message `of`. `version` is the version of its file that the client knows.
    fn new(
        server: &str,
        id: &str,
        message: &str,
        version: Option<SemVer>,
        pool: &DescriptorPool,
    ) -> Self {
        let bootstrap = Bootstrap::builder(server).node_id(id).build();
        let versions = version.map(|version| (message.to_owned(), version));
        let options = Options::default().with_api_versions(versions.into_iter().collect());
        let client = XdsClient::with_options(bootstrap.expect("valid").into(), options);
        Self {
            watch: client.watch_raw(of(message), "gold"),
            pool: pool.clone(),
        }
    }

    /// Waits for the next content of the resource. Its loss is an error.
    async fn next(&mut self) -> DynamicMessage {
        let update = timeout(TIMEOUT, self.watch.next()).await.expect("in time");
        let Some(Update::Changed(Ok(resource))) = update else {
            panic!("{update:?}");
        };
        let message = self.watch.resource_type().message();
        let descriptor = self.pool.get_message_by_name(message).expect("known");
        DynamicMessage::decode(descriptor, resource.value()).expect("decoded")
    }
}

fn text(message: &DynamicMessage, field: &str) -> String {
    let value = message.get_field_by_name(field).expect("a field");
    value.as_str().expect("text").to_owned()
}

fn number(message: &DynamicMessage, field: &str) -> i32 {
    let value = message.get_field_by_name(field).expect("a field");
    value.as_i32().expect("a number")
}

const BAR: &str = "acme.blah.v3.Foo.bar";
const V3_FOO: &str = "acme.blah.v3.Foo";
const V4_FOO: &str = "acme.blah.v4alpha.Foo";

/// "As a developer, I want to add a new field": given a stable v3 and its v4alpha, when v3 gets a field, then its file
/// needs a new minor version and v4alpha is generated again; clients of v3 that know the field, or do not, and one of
/// v4alpha are served from one cache, and the server knows which is which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v61_added_field_is_served_to_old_and_new_clients() {
    let proto = "syntax = \"proto3\";\n\npackage acme.blah.v3;\n\nmessage Foo {\n  string name = 1;\n  int32 limit = 2;\n  \
               string old = 3 [deprecated = true];\n}\n";
    let dir = repository(&[(FOO, proto)]);
    let dir = dir.path();
    let before = pool(dir);

    // 1. The field is added to v3; 2. the minor version of the file is bumped.
    edit(dir, FOO, "  string old", "  string bar = 4;\n  string old");
    let still = "declarations changed, but the version is still 3.0.0";
    api("check", dir, &[]).expect(1, &[still, "set the version to 3.1.0"]);
    api("bump", dir, &["--fix"]).expect(0, &["acme/blah/v3/foo.proto: 3.1.0"]);
    // 3. The same for v4alpha, which is generated.
    api("next-major", dir, &["--check"]).expect(1, &["foo.proto is outdated"]);
    api("next-major", dir, &[]).expect(0, &["1 written"]);
    api("bump", dir, &["--fix"]).expect(0, &["acme/blah/v4alpha/foo.proto: 0.2.0"]);
    api("check", dir, &[]).expect(0, &["no findings"]);

    let now = pool(dir);
    let cache = cache(&now, &[V4_FOO]);
    let put = |limit: i32, bar: &str| {
        let descriptor = now.get_message_by_name(V4_FOO).expect("generated");
        let mut message = DynamicMessage::new(descriptor);
        message.set_field_by_name("name", Value::String("gold".into()));
        message.set_field_by_name("limit", Value::I32(limit));
        message.set_field_by_name("bar", Value::String(bar.into()));
        let resource = Resource::new(of(V4_FOO), "gold", &message.encode_to_vec());
        cache.apply(ChangeSet::default().put(resource));
    };
    put(7, "first");
    let since = Requirement::default().since(V3_FOO, SemVer::new(3, 1, 0));
    let fields = FieldCatalogue::default().field(BAR, since);
    let found = Found::default();
    let server = serve(&cache, fields, &found).await;
    let version = |minor| Some(SemVer::new(3, minor, 0));
    let mut clients = [
        Client::new(&server, "old", V3_FOO, version(0), &before),
        Client::new(&server, "new", V3_FOO, version(1), &now),
        Client::new(&server, "silent", V3_FOO, None, &now),
        Client::new(&server, "next", V4_FOO, None, &now),
    ];
    for (limit, bar) in [(7, "first"), (8, "second")] {
        for (index, client) in clients.iter_mut().enumerate() {
            let message = client.next().await;
            assert_eq!(number(&message, "limit"), limit, "{message}");
            // The old client keeps the field that it does not know.
            assert_eq!(message.unknown_fields().count(), usize::from(index == 0));
            if index > 0 {
                assert_eq!(text(&message, "bar"), bar);
            }
        }
        put(8, "second");
    }
    // All of them have ACKed it, and a client without descriptors gets it, too.
    oxds(["wait", "--all", "--server", &server]).expect(0, &[]);
    oxds(["get", V3_FOO, "gold", "--server", &server]).expect(0, &["gold"]);
    let found = found.lock().expect("not poisoned");
    let of = |id: &str| found.get(id).copied();
    assert_eq!(of("old"), Some(Support::No));
    assert_eq!(of("new"), Some(Support::Yes));
    assert_eq!(of("silent"), Some(Support::Unknown));
}

/// The annotations of a refactoring, as in `cncf/xds`.
const MIGRATE: &str = "syntax = \"proto3\";

package udpa.annotations;

import \"google/protobuf/descriptor.proto\";

message FieldMigrateAnnotation {
  string rename = 1;
  string oneof_promotion = 2;
}

extend google.protobuf.FieldOptions {
  FieldMigrateAnnotation field_migrate = 171962766;
}
";

/// A tree of two packages in v3, of which one depends on the other.
fn two_packages() -> tempfile::TempDir {
    let proto = "syntax = \"proto3\";\n\npackage acme.blah.v3;\n\nimport \"udpa/annotations/migrate.proto\";\n\nmessage Foo {\n  \
               string name = 1;\n  int32 limit = 2;\n  string card = 3;\n  string cash = 4;\n  string note = 5;\n}\n";
    let gate = "syntax = \"proto3\";\n\npackage acme.gate.v3;\n\nimport \"acme/blah/v3/foo.proto\";\n\nmessage Gate {\n  \
                string name = 1;\n  acme.blah.v3.Foo foo = 2;\n}\n";
    let annotations = "udpa/annotations/migrate.proto";
    repository(&[
        (FOO, proto),
        ("acme/gate/v3/gate.proto", gate),
        (annotations, MIGRATE),
    ])
}

/// The owner's part of a refactoring: all changes are made in v3, and the next major is generated from them.
fn refactor(dir: &Path) {
    // The change is made in v3, as annotations: nothing breaks there. v4alpha is generated from it, and so is that of
    // the package that depends on it.
    let annotated = |name: &str| format!(" [(udpa.annotations.field_migrate).{name}];");
    edit(
        dir,
        FOO,
        "limit = 2;",
        &format!("limit = 2{}", annotated("rename = \"per_second\"")),
    );
    let payment = annotated("oneof_promotion = \"payment\"");
    edit(dir, FOO, "card = 3;", &format!("card = 3{payment}"));
    edit(dir, FOO, "cash = 4;", &format!("cash = 4{payment}"));
    edit(dir, FOO, "note = 5;", "note = 5 [deprecated = true];");
    // No field was added, so the patch version is enough.
    api("bump", dir, &["--fix"]).expect(0, &["acme/blah/v3/foo.proto: 3.0.1"]);
    api("check", dir, &[]).expect(0, &["no findings"]);
    let why = "acme.gate.v3.Gate refers to acme.blah.v3.Foo";
    api("next-major", dir, &["--why"]).expect(0, &["has deprecated member note", why]);
    api("next-major", dir, &[]).expect(0, &["2 files of 2 packages, 2 written"]);
}

/// "As a developer, I want to refactor the API": given two packages, when a field of v3 is annotated to be renamed, two
/// fields to become a oneof, and one is deprecated, then v4alpha follows by generation, in the dependent package, too;
/// after the API release, clients of both majors are served from one cache by translation, nothing is lost, and files
/// of v3 become files of v4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v61_refactored_api_is_served_in_both_majors() {
    let dir = two_packages();
    let dir = dir.path();
    assert!(
        !dir.join("acme/blah/v4alpha").exists(),
        "nothing breaks yet"
    );

    refactor(dir);

    // The API release: all alphas become stable, and depend on the newest stable majors only.
    let tree = dir.to_str().expect("UTF-8");
    let promote = [
        "api",
        "promote",
        "acme.blah.v4alpha",
        "acme.gate.v4alpha",
        "--tree",
        tree,
    ];
    oxds(promote).expect(
        0,
        &["acme.gate.v4alpha.Gate -> type.googleapis.com/acme.gate.v4.Gate"],
    );
    api("odr", dir, &[]).expect(0, &["no findings"]);

    // Both majors are served. The files of the owner become files of v4.
    let yaml = "'@type': type.googleapis.com/acme.gate.v3.Gate\nname: gold\nfoo: {name: a, limit: 7, card: x}\n";
    fs::write(dir.join("gate.yaml"), yaml).expect("written");
    let (from, to) = (dir.join("gate.yaml"), dir.join("gate.pb"));
    let mut translate = command(["api", "translate", "--to", "v4", "--format", "binary"]);
    let translated = translate.arg(from).args(["--tree", tree, "-o"]).arg(&to);
    assert!(translated.status().expect("ran").success());
    let any = Any::decode(&*fs::read(to).expect("written")).expect("an Any");
    let (now, v4_gate, v3_gate) = (pool(dir), "acme.gate.v4.Gate", "acme.gate.v3.Gate");
    assert_eq!(any.type_url, of(v4_gate).type_url());
    let cache = cache(&now, &["acme.blah.v4.Foo", v4_gate]);
    cache.apply(ChangeSet::default().put(Resource::new(of(v4_gate), "gold", &any.value)));
    let server = serve(&cache, FieldCatalogue::default(), &Found::default()).await;
    let mut v3 = Client::new(&server, "v3", v3_gate, None, &now);
    let mut v4 = Client::new(&server, "v4", v4_gate, None, &now);
    let foo_of = |gate: &DynamicMessage| {
        let inner = gate.get_field_by_name("foo").expect("a field");
        inner.as_message().expect("a message").clone()
    };
    let (old, new) = (foo_of(&v3.next().await), foo_of(&v4.next().await));
    assert_eq!(
        (number(&old, "limit"), text(&old, "card")),
        (7, "x".to_owned())
    );
    assert_eq!(
        (number(&new, "per_second"), text(&new, "card")),
        (7, "x".to_owned())
    );

    // A change in the new major reaches both.
    let mut changed = DynamicMessage::decode(
        now.get_message_by_name(v4_gate).expect("known"),
        &*any.value,
    );
    let gate = changed.as_mut().expect("decoded");
    let inner = gate.get_field_by_name_mut("foo").expect("a field");
    let inner = inner.as_message_mut().expect("a message");
    inner.set_field_by_name("per_second", Value::I32(9));
    inner.set_field_by_name("cash", Value::String("y".into()));
    cache.apply(ChangeSet::default().put(Resource::new(
        of(v4_gate),
        "gold",
        &gate.encode_to_vec(),
    )));
    let (old, new) = (foo_of(&v3.next().await), foo_of(&v4.next().await));
    assert_eq!(
        (
            number(&old, "limit"),
            text(&old, "cash"),
            text(&old, "card")
        ),
        (9, "y".to_owned(), String::new())
    );
    assert_eq!(
        (number(&new, "per_second"), text(&new, "cash")),
        (9, "y".to_owned())
    );
    oxds(["wait", "--all", "--server", &server]).expect(0, &[]);
}

/// Waits until this number of clients use v2, by the status page.
#[track_caller]
fn until_on_v2(server: &Serve, count: usize) {
    until(|| {
        let page = server.page("/status.json");
        let is_reached = page.matches("\"api\":\"v2\"").count() == count;
        let reached = is_reached.then_some(());
        reached.ok_or_else(|| format!("expected {count} clients of v2: {page}"))
    });
}

const REFUSED: &str = "API v2 is not served here: expected v3 or later";

/// Asserts that clients of v2 are refused with the reason, over gRPC and REST, and those of v3 are served; ends the
/// server.
fn refuses_v2(server: Serve, grpc: &str) {
    let get = |api| oxds(["get", "clusters", "--server", grpc, "--transport", api]);
    get("v3").expect(0, &["a", "b"]);
    get("v2").expect(1, &[REFUSED]);
    let polled = server.post(
        "/v2/discovery:clusters",
        "content-type: application/json\r\n",
        "{}",
    );
    assert!(
        polled.starts_with("HTTP/1.1 501") && polled.contains(REFUSED),
        "{polled}"
    );
    server.shows("/metrics", "oxds_denied_total{reason=\"api_version\"}");
    server.signal("TERM");
    let (_, log) = server.end();
    assert!(
        log.contains("client of a major that is not served"),
        "{log}"
    );
}

/// "As an operator, I want to upgrade to a new API version": given a server of both majors and three clients of v2,
/// when they are upgraded one after another, and v2 is dropped after the last one, then every change reaches every
/// client, none loses a resource, and a client of v2 that comes later gets the reason for which it is refused.
#[test]
fn v61_operator_upgrades_a_fleet_and_drops_the_old_major() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let serve = |more: &[&str]| {
        let mut command = command(["serve", "--http", "127.0.0.1:0"]);
        Serve::of(command.arg(dir.path()).args(more))
    };
    // 1. The server supports both majors.
    let server = serve(&["--grpc", "127.0.0.1:0"]);
    server.shows("/readyz", "200 OK");
    let grpc = server.grpc.to_string();
    let watch = |id: usize, api: &str| {
        let id = format!("edge-{id}");
        let mut watching = Watching::of(&[
            "clusters",
            "--server",
            &grpc,
            "--node-id",
            &id,
            "--transport",
            api,
        ]);
        watching.expect("added", "a");
        watching.expect("added", "b");
        watching
    };
    let mut clients: Vec<Watching> = (0..3).map(|id| watch(id, "v2")).collect();
    until_on_v2(&server, 3);
    let status = || oxds(["status", "--server", &grpc]);
    status().expect(0, &["edge-0  cds (v2)", "edge-2  cds (v2)"]);

    // 2. The clients are upgraded one after another, and the configuration changes in the time between.
    let mut seconds = 1;
    let mut change = |clients: &mut [Watching], upgraded: usize| {
        seconds += 1;
        let text = cluster("a").replace("1s", &format!("{seconds}s"));
        fs::write(dir.path().join("new"), text).expect("written");
        fs::rename(dir.path().join("new"), dir.path().join("a.yaml")).expect("renamed");
        for (id, client) in clients.iter_mut().enumerate() {
            let resource = client.expect("changed", "a");
            assert_eq!(resource["connect_timeout"], format!("{seconds}s"));
            let message = if id < upgraded {
                "envoy.config.cluster.v3.Cluster"
            } else {
                "envoy.api.v2.Cluster"
            };
            assert_eq!(resource["@type"], format!("type.googleapis.com/{message}"));
        }
    };
    change(&mut clients, 0);
    for id in 0..3 {
        clients[id] = watch(id, "v3");
        until_on_v2(&server, 2 - id);
        change(&mut clients, id + 1);
    }

    // 3. No client uses v2 any more, so the server drops it.
    let shown = status();
    assert!(
        !shown.expect(0, &["edge-2  cds "]).stdout.contains("v2)"),
        "{shown:#?}"
    );
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
    let server = serve(&["--grpc", &grpc, "--oldest-version", "3"]);
    server.shows("/readyz", "200 OK");
    change(&mut clients, 3);
    refuses_v2(server, &grpc);
    let mut wrong = command(["serve", "--oldest-version", "4"]);
    let wrong = wrong.arg(dir.path()).output().expect("ran");
    crate::support::Ran::from(wrong).expect(2, &["expected 2 or 3"]);
}
