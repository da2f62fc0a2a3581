//! `oxds plan`: against a control plane with a client, a folder, and with all exit codes.

use std::fs;
use std::path::Path;

use oxds_core::resource::Cluster;
use serde_json::Value;

use crate::observe::Watching;
use crate::rollout::{client, eds_cluster};
use crate::support::{Ran, Serve, cluster, command, documented, folder, oxds, shop};

fn plan(dir: &Path, more: &[&str]) -> Ran {
    let dir = dir.to_str().expect("UTF-8");
    oxds([&["plan", dir], more].concat())
}

fn copy(from: &Path, to: &Path, edit: &impl Fn(&str) -> String) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target, edit);
        } else {
            let text = fs::read_to_string(entry.path()).expect("a file");
            fs::write(target, edit(&text)).expect("written");
        }
    }
}

/// Given the example, in which another cluster replaces one, then the output is that of the documentation.
#[test]
fn documented_output_of_plan_is_true() {
    let work = folder(&[]);
    copy(&shop(), &work.path().join("examples/shop"), &str::to_owned);
    copy(&shop(), &work.path().join("config"), &|text| {
        text.replace("checkout-v2", "checkout-v3")
    });
    let line = "oxds plan config --against examples/shop";
    let run = |line: &str| -> Ran {
        let mut command = command(line.split(' ').skip(1));
        let output = command.current_dir(work.path()).output();
        output.expect("the binary runs").into()
    };
    assert_eq!(run(line).expect(0, &[]).stdout, documented(line));
    let line = "oxds diff examples/shop config";
    assert_eq!(run(line).expect(1, &[]).stdout, documented(line));
}

/// Given a control plane with a client that subscribes to one of two clusters, then the plan has the fields and the
/// number of clients of each change; and when the folder is served, nothing would change.
#[tokio::test(flavor = "multi_thread")]
async fn g13_plan_shows_changes_and_their_clients() {
    let dir = folder(&[("a.yaml", &eds_cluster("a")), ("b.yaml", &eds_cluster("b"))]);
    let server = Serve::start(dir.path());
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("a");
    watch.next().await.expect("a resource");
    let grpc = server.grpc.to_string();
    let at_server = ["--server", &*grpc];
    let same = plan(dir.path(), &at_server);
    let nothing = format!("nothing would change against {grpc} for node oxds\n");
    assert!(same.expect(0, &[]).stdout.ends_with(&nothing), "{same:#?}");

    let slow = |name: &str| eds_cluster(name).replace(": 1s", ": 2s");
    let next = folder(&[
        ("a.yaml", &slow("a")),
        ("b.yaml", &slow("b")),
        ("c.yaml", &eds_cluster("c")),
    ]);
    let ran = plan(next.path(), &at_server);
    let text = &ran.expect(0, &[]).stdout;
    for part in [
        "changed cds a: 1 client\n    ~ connect_timeout: \"1s\" -> \"2s\"\n",
        "changed cds b: 0 clients\n",
        "added cds c: 0 clients\n",
        "order of sending:\n  1. cds: added c, changed a b\n",
        "1 added, 2 changed, 0 removed; for 1 of 1 connected clients\n",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let json = plan(
        next.path(),
        &[&at_server[..], &["--format", "json"]].concat(),
    );
    let json: Value = serde_json::from_str(&json.expect(0, &[]).stdout).expect("JSON");
    assert_eq!(
        json["clients"],
        serde_json::json!({"connected": 1, "affected": 1})
    );
    assert_eq!(json["changes"][0]["clients"], 1);
    assert_eq!(json["sending"][0]["steps"][0]["changed"][0], "a");
    assert_eq!(json["result"], "planned");
}

/// Given a client that asks for all clusters, then an added cluster is for it, too.
#[test]
fn g13_plan_counts_wildcard_clients() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    let grpc = server.grpc.to_string();
    let mut all = Watching::of(&["cds", "--server", &grpc, "--node-id", "envoy-1"]);
    all.expect("added", "a");
    let next = folder(&[("a.yaml", &cluster("a")), ("n.yaml", &cluster("n"))]);
    let ran = plan(next.path(), &["--server", &grpc]);
    ran.expect(
        0,
        &[
            "added cds n: 1 client\n",
            "; for 1 of 1 connected clients\n",
        ],
    );
}

/// Given a node in a group, then the resources of its groups are compared, and other groups are named as not compared.
#[test]
fn s74_plan_of_a_node_applies_its_groups() {
    let files = |timeout: &str| {
        let of_group = cluster("a").replace("1s", timeout);
        folder(&[
            ("a.yaml", &cluster("a")),
            ("groups/edge/group.yaml", "match: {id: edge-*}\n"),
            ("groups/edge/a.yaml", &of_group),
        ])
    };
    let (now, next) = (files("2s"), files("3s"));
    let server = Serve::start(now.path());
    let grpc = server.grpc.to_string();
    let others = "not compared: groups that this node is not in: edge";
    plan(next.path(), &["--server", &grpc]).expect(0, &[others, "nothing would change"]);
    let of_edge = ["--server", &grpc, "--node-id", "edge-1"];
    plan(next.path(), &of_edge).expect(0, &["\"2s\" -> \"3s\"", "for node edge-1 in groups edge"]);
    // A folder has all groups.
    let now = now.path().to_str().expect("UTF-8");
    let ran = plan(next.path(), &["--against", now]);
    ran.expect(
        0,
        &[
            "changed cds a (group edge)\n    ~ connect_timeout: \"2s\" -> \"3s\"",
            "order of sending to nodes of group edge:\n  1. cds: changed a\n",
        ],
    );
}

/// Exit codes for CI: 0 and 2 with `--detailed-exitcode`, 1 for all errors; `--strict` fails for dangerous changes.
#[test]
fn plan_has_exit_codes_for_ci() {
    let routes = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: main\nvirtual_hosts:\n- {name: a, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: a}}]}\n";
    let old = folder(&[
        ("a.yaml", &cluster("a")),
        ("b.yaml", &cluster("b")),
        ("routes.yaml", routes),
    ]);
    let new = folder(&[("b.yaml", &cluster("b")), ("routes.yaml", routes)]);
    let against = ["--against", old.path().to_str().expect("UTF-8")];
    let with = |more: &[&'static str]| [&against[..], more].concat();
    plan(old.path(), &with(&["--detailed-exitcode"])).expect(0, &["nothing would change"]);
    let danger = "warning: cds a is removed, but still named by rds main\n";
    plan(new.path(), &with(&[])).expect(0, &[danger]);
    plan(new.path(), &with(&["--detailed-exitcode"])).expect(2, &[danger]);
    plan(new.path(), &with(&["--strict", "--detailed-exitcode"])).expect(1, &[danger]);

    let none = new.path().join("none");
    plan(&none, &with(&[])).expect(2, &["cannot read the folder"]);
    plan(&none, &with(&["--detailed-exitcode"])).expect(1, &["cannot read the folder"]);
    plan(new.path(), &with(&["--detailed-exitcode", "--bogus"])).expect(1, &["--bogus"]);
    let closed = ["--server", "127.0.0.1:1", "--detailed-exitcode"];
    plan(new.path(), &closed).expect(1, &["cannot connect"]);
}

/// Given a folder with an error, then the plan is the error (S-71).
#[test]
fn s71_plan_of_an_invalid_folder_is_its_errors() {
    let old = folder(&[("a.yaml", &cluster("a"))]);
    let new = folder(&[("a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"))]);
    let against = ["--against", old.path().to_str().expect("UTF-8")];
    let texts = [
        "a.yaml:4:1: error: lb_polizy",
        "no plan: the folder has 1 error",
    ];
    plan(new.path(), &against).expect(1, &texts);
    let json = plan(new.path(), &[&against[..], &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&json.expect(1, &[]).stdout).expect("JSON");
    assert_eq!(
        (&json["result"], &json["findings"][0]["path"]),
        (&"invalid".into(), &"lb_polizy".into())
    );
}
