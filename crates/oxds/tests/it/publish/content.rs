//! Contents of a publish: names, findings, secrets.

use oxds_etcd::{Entry, Key, Segment, Stored};

use super::{Store, key_of, prefix};
use crate::rollout::eds_cluster;
use crate::support::{cluster, folder, oxds};

const GROUP: &str = "match: {id: edge-*}\n";

/// given an empty prefix / when a folder is published / then the head has seq 1, and `get` shows equal resources for
/// the store and for the folder, those of groups included.
#[test]
fn g1_published_resources_equal_those_of_the_folder() {
    let store = Store::start();
    let listener = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\nname: in\naddress: {socket_address: {address: 127.0.0.1, port_value: 7}}\nfilter_chains: [{}]\n";
    let dir = folder(&[
        ("a.yaml", &cluster("a")),
        ("sub/b.yaml", &cluster("b")),
        ("listener.yaml", listener),
        ("groups/edge/group.yaml", GROUP),
        ("groups/edge/c.yaml", &cluster("c")),
    ]);
    let texts = [
        "published 1 to lane main: 5 added, 0 changed, 0 removed",
        "TYPE",
        "edge",
    ];
    store.publish(dir.path(), []).expect(0, &texts);
    assert_eq!(store.seq(), 1);
    for of in ["cds", "lds"] {
        for output in ["table", "yaml", "json"] {
            let published = store.get([of, "-o", output]);
            let path = dir.path().to_str().expect("UTF-8");
            let local = oxds(["get", of, "-o", output, "--dir", path]);
            assert_eq!((published.code, local.code), (Some(0), Some(0)));
            assert_eq!(published.stdout, local.stdout, "{of} {output}");
            assert!(!published.stdout.is_empty());
        }
    }
    // The matcher is the one of the folder.
    let group = Segment::group("edge").expect("a name");
    let matcher = &store.keys().served("main")[&Entry::Matcher(group)];
    let matcher = matcher.matcher().expect("a matcher");
    assert_eq!(matcher.id.expect("a pattern").as_str(), "edge-*");
    let origin = store.keys().served("main")[&Entry::parse(&key_of("b")).expect("a key")].clone();
    assert_eq!(origin.origin().expect("an origin").file, "sub/b.yaml");
}

/// given names with any character / when they are published and read / then they are unchanged.
#[test]
fn g3_names_are_published_unchanged() {
    let store = Store::start();
    let long = "n".repeat(500);
    let names = [
        "a/b//c/",
        "what?x=y&z",
        "größe-日本",
        "xdstp://auth/t/a?k=v",
        &*long,
        "r/x/y",
    ];
    let texts: Vec<_> = names
        .iter()
        .map(|name| cluster(&format!("{name:?}")))
        .collect();
    let files: Vec<_> = (0..names.len()).map(|at| format!("{at}.yaml")).collect();
    let files: Vec<_> = files
        .iter()
        .zip(&texts)
        .map(|(file, text)| (&**file, &**text))
        .collect();
    store
        .publish(folder(&files).path(), [])
        .expect(0, &["6 added"]);
    let mut expected: Vec<_> = names.iter().map(|name| key_of(name)).collect();
    expected.sort();
    let mut served = store.keys().names("main");
    served.sort();
    assert_eq!(served, expected);
    for name in names {
        store.get(["cds", name]).expect(0, &[name]);
    }
    // A lane with a slash is an error.
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    store
        .publish(dir.path(), ["--lane", "a/b"])
        .expect(2, &["invalid lane name"]);
}

/// given an invalid folder / when it is published / then the findings and the exit code are those of `validate`, and
/// nothing is written.
#[test]
fn g12_invalid_folder_is_not_published() {
    let store = Store::start();
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", "name: [")]);
    let path = dir.path().to_str().expect("UTF-8");
    let valid = oxds(["validate", path]);
    let published = store.publish(dir.path(), []);
    published.expect(1, &["b.yaml:1", "nothing was published"]);
    let first = valid.stdout.lines().next().expect("a finding");
    assert_eq!(published.stdout.lines().next(), Some(first));
    assert_eq!((store.seq(), store.etcd.revision()), (0, 1));
    // The findings need no etcd, which is read beside the folder.
    store.etcd.kill();
    let without = store.publish(dir.path(), []);
    assert_eq!(
        (without.code, &without.stdout),
        (published.code, &published.stdout)
    );
    // A folder that is not there is not an invalid one.
    let gone = dir.path().join("gone");
    store
        .publish(&gone, [])
        .expect(2, &["cannot read the folder"]);
}

/// given a folder that is valid alone, and not with what is published / when it is published / then nothing is written.
#[test]
fn g12_folder_that_is_invalid_with_the_store_is_refused() {
    let store = Store::start();
    let group = |name: &str, matcher: &str| {
        let files = [
            (format!("groups/{name}/group.yaml"), matcher.to_owned()),
            (format!("groups/{name}/a.yaml"), cluster("a")),
        ];
        let files: Vec<_> = files
            .iter()
            .map(|(file, text)| (&**file, &**text))
            .collect();
        folder(&files)
    };
    let first = group("one", "match: {id: a-*}\n");
    store.publish(first.path(), []).expect(0, &[]);
    let before = store.keys();
    // Equally specific groups that may match the same nodes cannot both have the resource.
    let second = group("two", "match: {id: '*-a'}\n");
    let refused = store.publish(second.path(), ["--lane", "other"]);
    refused.expect(1, &["duplicate", "nothing was published"]);
    assert_eq!(store.keys(), before);
    // A reference to nothing is a warning, and an error with --strict.
    let route = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: ''}, route: {cluster: late}}]}]\n";
    let routes = folder(&[("route.yaml", route)]);
    store
        .publish(routes.path(), ["--strict"])
        .expect(1, &["route.yaml", "\"late\"", "error"]);
    assert_eq!(store.keys(), before);
    store
        .publish(routes.path(), [])
        .expect(0, &["route.yaml", "warning"]);
    // when another lane has the cluster, there is no warning
    let late = folder(&[("late.yaml", &cluster("late"))]);
    store
        .publish(late.path(), ["--lane", "late"])
        .expect(0, &[]);
    let changed = folder(&[("route.yaml", &route.replace("name: v,", "name: w,"))]);
    let quiet = store.publish(changed.path(), ["--strict"]);
    quiet.expect(0, &["1 changed"]);
    assert!(!quiet.stdout.contains("late"), "{quiet:?}");
}

/// given a folder that is published / when it is published again / then no key is written. `--dry-run` lists what would
/// change.
#[test]
fn g13_same_folder_is_published_once() {
    let store = Store::start();
    let first = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    store.publish(first.path(), []).expect(0, &["published 1"]);
    let revision = store.etcd.revision();
    let texts = ["nothing to publish: lane main has this content since publish 1"];
    store.publish(first.path(), []).expect(0, &texts);
    // A comment changes lines, and no content.
    let moved = folder(&[
        ("a.yaml", &format!("# a\n{}", cluster("a"))),
        ("b.yaml", &cluster("b")),
    ]);
    store.publish(moved.path(), []).expect(0, &texts);
    let second = folder(&[
        ("b.yaml", &cluster("b").replace("1s", "2s")),
        ("c.yaml", &cluster("c")),
        ("groups/edge/group.yaml", GROUP),
        ("groups/edge/d.yaml", &cluster("d")),
    ]);
    let dry = store.publish(second.path(), ["--dry-run", "--prune"]);
    let texts = [
        "removed cds a\n",
        "changed cds b\n",
        "added cds c\n",
        "added group edge\n",
        "added cds d (group edge)\n",
        "dry run: lane main would get 3 added, 1 changed, 1 removed",
    ];
    dry.expect(0, &texts);
    assert_eq!((store.seq(), store.etcd.revision()), (1, revision));
    // Without --prune nothing is removed.
    let json = store.publish(second.path(), ["--format", "json"]);
    json.expect(
        0,
        &[
            "\"result\": \"published\"",
            "\"seq\": 2",
            "\"name\": \"edge\"",
        ],
    );
    assert!(!json.stdout.contains("removed"), "{json:?}");
    let names = [key_of("a"), key_of("b"), key_of("c")];
    for name in names {
        assert!(store.keys().names("main").contains(&name), "{name}");
    }
    store
        .publish(second.path(), ["--prune"])
        .expect(0, &["0 added, 0 changed, 1 removed"]);
    assert!(!store.keys().names("main").contains(&key_of("a")));
}

/// given resources of type Secret / when they are published / then that needs `--with-secrets`, and no output shows
/// them.
#[test]
fn g15_secrets_need_an_option_and_are_not_shown() {
    let store = Store::start();
    let secret = "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: token\ngeneric_secret: {secret: {inline_string: hunter2}}\n";
    let dir = folder(&[("secret.yaml", secret)]);
    store
        .publish(dir.path(), [])
        .expect(1, &["--with-secrets", "token"]);
    assert_eq!((store.seq(), store.etcd.revision()), (0, 1));
    for format in ["text", "json"] {
        let store = Store::start();
        let shown = store.publish(dir.path(), ["--with-secrets", "--format", format]);
        shown.expect(0, &["published"]);
        assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
    }
}

/// given a resource that no request can carry / when it is published / then the command fails before it writes.
#[test]
fn g9_resource_above_the_limit_is_named() {
    let store = Store::start();
    let big = cluster("big") + &format!("alt_stat_name: {}\n", "x".repeat(5_000));
    let dir = folder(&[("a.yaml", &cluster("a")), ("big.yaml", &big)]);
    let refused = store.publish(dir.path(), ["--max-request-bytes", "4096"]);
    refused.expect(1, &["Cluster/big", "4096", "--max-request-bytes"]);
    assert_eq!(store.etcd.revision(), 1);
    store.publish(dir.path(), []).expect(0, &["2 added"]);
}

/// given a folder whose resources are of a user's own type / when it is published / then the key has the type's full
/// name.
#[test]
fn g3_value_has_type_and_bytes_of_the_resource() {
    let store = Store::start();
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    store.publish(dir.path(), []).expect(0, &[]);
    let key = Key::parse(&format!("l/main/{}", key_of("a"))).expect("a key");
    let kv = store.etcd.get(&prefix().key(&key)).expect("the key");
    let stored = Stored::decode(kv.value).expect("a value");
    let json = store.get(["cds", "-o", "table"]);
    assert!(
        json.stdout.contains(&stored.version().to_string()),
        "{json:?}"
    );
}

/// given a published folder / when another is planned against etcd / then the plan is what a publish would do, with and
/// without `--prune`, and resources of other lanes satisfy references.
#[test]
fn g13_plan_against_etcd_is_that_of_a_publish() {
    let store = Store::start();
    let assignment = "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\ncluster_name: a\n";
    let endpoints = folder(&[("e.yaml", assignment)]);
    store
        .publish(endpoints.path(), ["--lane", "endpoints"])
        .expect(0, &[]);
    let eds = eds_cluster("a");
    let dir = folder(&[("a.yaml", &eds), ("b.yaml", &cluster("b"))]);
    store.publish(dir.path(), []).expect(0, &[]);
    let next = folder(&[("a.yaml", &eds.replace(": 1s", ": 2s"))]);
    let (path, url) = (next.path().to_str().expect("UTF-8"), store.etcd.url());
    let plan = |more: &[&str]| oxds([&["plan", path, "--etcd", &url], more].concat());
    let ran = plan(&[]);
    ran.expect(
        0,
        &[
            "changed cds a\n    ~ connect_timeout: \"1s\" -> \"2s\"\n",
            "plan against lane main of /oxds/default: 0 added, 1 changed, 0 removed\n",
        ],
    );
    assert!(!ran.stdout.contains("refers to"), "{ran:#?}");
    plan(&["--prune", "--detailed-exitcode"]).expect(2, &["removed cds b\n"]);
    let dry_run = store.publish(next.path(), ["--dry-run", "--prune"]);
    dry_run.expect(0, &["changed cds a\n", "removed cds b\n"]);
    store.publish(next.path(), ["--prune"]).expect(0, &[]);
    plan(&["--prune", "--detailed-exitcode"]).expect(0, &["nothing would change"]);
}
