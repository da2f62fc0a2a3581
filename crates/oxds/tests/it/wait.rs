//! Tests of `oxds wait --dir`, and of the bounds of the output of `oxds wait`.

use std::fs;
use std::path::Path;

use oxds_core::resource::Cluster;
use oxds_testkit::hostile::{Rude, framed};
use oxds_types::discovery::{DeltaDiscoveryRequest, Node};

use crate::rollout::{client, eds_cluster};
use crate::support::{Ran, Serve, cluster, folder, oxds};

fn wait(server: &Serve, dir: &Path, more: &[&str]) -> Ran {
    let (grpc, dir) = (server.grpc.to_string(), dir.to_str().expect("UTF-8"));
    oxds([&["wait", "--server", &grpc, "--dir", dir], more].concat())
}

/// Given a client, when a file is saved and `wait --dir` starts at once, then it ends when the client has the new
/// content.
#[tokio::test(flavor = "multi_thread")]
async fn s68_wait_for_a_folder_needs_no_pause() {
    let dir = folder(&[("a.yaml", &eds_cluster("shop"))]);
    let server = Serve::start(dir.path());
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("a resource");
    for seconds in 2..7 {
        let timeout = format!("connect_timeout: {seconds}s");
        let text = eds_cluster("shop").replace("connect_timeout: 1s", &timeout);
        fs::write(dir.path().join("a.yaml"), text).expect("written");
        wait(&server, dir.path(), &[]).expect(0, &[]);
        let status = server.page("/status.json");
        assert!(status.contains("\"in_sync\":true"), "{status}");
        let grpc = server.grpc.to_string();
        let served = oxds(["get", "cds", "shop", "-o", "yaml", "--server", &grpc]);
        served.expect(0, &[&timeout]);
    }
}

/// Given a client that does not answer, then a folder that is served is not enough.
#[tokio::test(flavor = "multi_thread")]
async fn s68_wait_for_a_folder_is_for_all_clients() {
    let names: Vec<_> = (0..150).map(|number| format!("c{number:03}")).collect();
    let clusters: Vec<_> = names.iter().map(|name| cluster(name)).collect();
    let dir = folder(&[("a.yaml", &clusters.join("---\n"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    wait(&server, dir.path(), &[]).expect(0, &[]);
    let path = "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters";
    let mut client = Rude::connect(server.grpc, 65_535).await.expect("connected");
    let mut call = client.call(path).await.expect("a call");
    call.send(framed(&DeltaDiscoveryRequest {
        node: Some(Node {
            id: "silent-1".into(),
            ..Node::default()
        }),
        ..DeltaDiscoveryRequest::default()
    }));
    call.message().await.expect("a response");
    let ran = wait(&server, dir.path(), &["--timeout", "300ms"]);
    let last = "and 50 more resources; clients in all: 1\n";
    ran.expect(1, &["silent-1 cds c000 STALE\n", last]);
    assert_eq!(ran.stdout.lines().count(), 101, "{ran:#?}");
}

/// Given other contents than those that are served, then the command says in which types and groups they differ.
#[test]
fn s68_wait_names_what_is_not_served() {
    let files = |name: &str, id: &str| {
        folder(&[
            ("a.yaml", &cluster("a")),
            (
                "groups/edge/group.yaml",
                &format!("match: {{ id: {id} }}\n"),
            ),
            ("groups/edge/b.yaml", &cluster(name)),
            ("groups/far/group.yaml", "match: { id: far-* }\n"),
            ("groups/far/a.yaml", &cluster("a")),
        ])
    };
    let dir = files("b", "edge-*");
    let server = Serve::start(dir.path());
    wait(&server, dir.path(), &[]).expect(0, &[]);
    let short = ["--timeout", "100ms"];
    for other in [files("c", "edge-*"), files("b", "edge-1")] {
        let ran = wait(&server, other.path(), &short);
        ran.expect(1, &["group edge: the folder has version "]);
        assert_eq!(ran.stdout.lines().count(), 1, "{ran:#?}");
    }
    let other = folder(&[("a.yaml", &cluster("b"))]);
    let nothing = "group far: the folder has nothing, the control plane serves version ";
    wait(&server, other.path(), &short).expect(1, &["cds: the folder has version ", nothing]);
}

#[test]
fn s73_wait_for_an_invalid_folder_fails_at_once() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    let wrong = folder(&[("a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"))]);
    let begun = std::time::Instant::now();
    let texts = [
        "has errors: ",
        "a.yaml:4:1: error: lb_polizy",
        "oxds validate",
    ];
    wait(&server, wrong.path(), &["--timeout", "10m"]).expect(1, &texts);
    assert!(begun.elapsed().as_secs() < 300);
    let both = ["wait", "shop", "--dir", "."];
    oxds(both).expect(2, &["cannot be used with"]);
}
