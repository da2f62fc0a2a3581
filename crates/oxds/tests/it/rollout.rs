//! `oxds status` and `oxds wait`, with a real client of the control plane.

use std::fs;

use oxds_client::{Bootstrap, ClientPool, XdsClient};
use oxds_core::resource::Cluster;
use oxds_testkit::hostile::{Rude, framed};
use oxds_types::discovery::{DiscoveryRequest, DiscoveryResponse, Node, Status};
use prost::Message as _;
use serde_json::Value;

use crate::support::{Serve, cluster, command, folder, oxds};

/// What a gRPC client accepts: the cluster of the other tests, with its endpoints by EDS.
fn eds_cluster(name: &str) -> String {
    cluster(name)
        + "type: EDS\neds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }\n"
}

fn client(server: &Serve, node: &str) -> XdsClient {
    let bootstrap = Bootstrap::builder(server.grpc.to_string()).node_id(node);
    ClientPool::new(bootstrap.build().expect("complete")).client("#test")
}

fn ask(server: &Serve, arguments: &[&str]) -> crate::support::Ran {
    let grpc = server.grpc.to_string();
    oxds(arguments.iter().copied().chain(["--server", &grpc]))
}

/// Given a client that watches a cluster; then `wait` ends well once it has it, and `status` shows it; when the cluster
/// becomes one that the client refuses; then both say so, with the client's words, and exit code 1.
#[tokio::test(flavor = "multi_thread")]
async fn s68_status_and_wait_follow_a_rollout() {
    let dir = folder(&[("a.yaml", &eds_cluster("shop"))]);
    let server = Serve::start(dir.path());
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("an answer");
    ask(&server, &["wait", "--for", "acked", "shop"]).expect(0, &[]);
    ask(&server, &["wait", "--all"]).expect(0, &[]);
    ask(&server, &["status"]).expect(
        0,
        &[
            "NODE        KIND  STATUS  SENT",
            "checkout-1  cds   SYNCED  ",
        ],
    );

    // Its address is in the file; gRPC takes endpoints by EDS only.
    let refused =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    fs::write(dir.path().join("a.yaml"), refused).expect("written");
    server.shows("/status.json", "\"nacks\":1");
    ask(&server, &["wait", "shop", "--timeout", "1s"]).expect(1, &["checkout-1 cds shop NACKED: "]);
    ask(&server, &["status"]).expect(1, &["checkout-1  cds   NACKED  ", "  shop: "]);
    ask(&server, &["status", "-o", "yaml"]).expect(1, &["id: checkout-1", "state: NACKED"]);
    let json = ask(&server, &["status", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&json.expect(1, &[]).stdout).expect("JSON");
    let (node, resource_type) = (&nodes["nodes"][0], &nodes["nodes"][0]["kinds"][0]);
    assert_eq!(
        (&node["id"], &node["protocol"]),
        (&"checkout-1".into(), &"sotw".into())
    );
    assert_eq!(
        (&resource_type["state"], &resource_type["kind"]),
        (&"NACKED".into(), &"cds".into())
    );
    assert_ne!(resource_type["sent"], resource_type["acknowledged"]);
    assert!(
        resource_type["since_seconds"]
            .as_f64()
            .is_some_and(|since| since < 20.0),
        "{resource_type}"
    );
}

/// Given a file with a mistake; then `wait` says where, for that resource and for all, and not for another; `status` says
/// so too; when it is mended while somebody waits; then that ends well, long before its time is over.
#[test]
fn s73_a_file_with_a_mistake_is_not_live() {
    let wrong = cluster("a") + "lb_polizy: RANDOM\n";
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    fs::write(dir.path().join("a.yaml"), wrong).expect("written");
    server.shows("/status.json", "lb_polizy");
    let said = ["a.yaml:4:1: error: lb_polizy"];
    ask(&server, &["wait", "a", "--timeout", "300ms"]).expect(1, &said);
    ask(&server, &["wait", "--all", "--timeout", "50ms"]).expect(1, &said);
    ask(&server, &["wait", "b"]).expect(0, &[]);
    ask(&server, &["status"]).expect(1, &said);

    let waiting = std::thread::spawn({
        let grpc = server.grpc.to_string();
        move || oxds(["wait", "a", "--timeout", "60s", "--server", &grpc])
    });
    fs::write(dir.path().join("a.yaml"), cluster("a")).expect("written");
    let begun = std::time::Instant::now();
    waiting.join().expect("ran").expect(0, &[]);
    let took = begun.elapsed();
    assert!(took.as_secs() < 30, "{took:?}");
}

#[test]
fn nobody_connected_is_said_and_waited_for_by_nobody() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    ask(&server, &["status"]).expect(0, &["no client is connected"]);
    ask(&server, &["wait", "--all"]).expect(0, &[]);
}

#[test]
fn a_control_plane_that_is_not_there_is_named() {
    let arguments = ["status", "--server", "127.0.0.1:1"];
    oxds(arguments).expect(1, &["cannot connect to 127.0.0.1:1"]);
    oxds(["wait", "--server", "127.0.0.1:1"]).expect(2, &["NAME"]);
}

/// Given `--on-nack rollback` and a client that accepted a cluster; when the file becomes one that the client refuses; then
/// the cluster returns, `status` says so and `wait` that the file is not live; when the file is mended; then both are
/// content.
#[tokio::test(flavor = "multi_thread")]
async fn s80_a_refused_file_is_taken_back_until_it_is_mended() {
    let dir = folder(&[("a.yaml", &eds_cluster("shop"))]);
    let options = [
        "--on-nack",
        "rollback",
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ];
    let server = Serve::of(command(["serve"]).args(options).arg(dir.path()));
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("an answer");
    ask(&server, &["wait", "shop"]).expect(0, &[]);
    let refused =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    fs::write(dir.path().join("a.yaml"), refused).expect("written");
    server.shows("/status.json", "\"refused_by\":[\"checkout-1\"]");
    let said = ["cds shop returned to ", "checkout-1 refused "];
    ask(&server, &["status"]).expect(1, &said);
    let said = ["checkout-1 cds shop NACKED: rolled back to "];
    ask(&server, &["wait", "shop", "--timeout", "1s"]).expect(1, &said);

    let mended = eds_cluster("shop").replace("1s", "2s");
    fs::write(dir.path().join("a.yaml"), mended).expect("written");
    server.shows("/status.json", "\"rollbacks\":[]");
    ask(&server, &["wait", "shop"]).expect(0, &[]);
    ask(&server, &["status"]).expect(0, &["SYNCED"]);
}

/// Given a client with a name and words that a terminal, or a reader of logs, would take for something else; then status,
/// `wait` and the log show them in one line each, and harmless.
#[tokio::test(flavor = "multi_thread")]
async fn s60_what_a_client_says_is_only_shown() {
    let dir = folder(&[("a.yaml", &cluster("shop"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    let path = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";
    let mut client = Rude::connect(server.grpc, 65_535).await.expect("connected");
    let mut call = client.call(path).await.expect("a call");
    call.send(framed(&DiscoveryRequest {
        node: Some(Node {
            id: "\x1b[2Jnode\nnext".into(),
            ..Node::default()
        }),
        ..DiscoveryRequest::default()
    }));
    let answer = call.message().await.expect("an answer");
    let answer = DiscoveryResponse::decode(answer).expect("a response");
    call.send(framed(&DiscoveryRequest {
        response_nonce: answer.nonce,
        error_detail: Some(Status {
            message: "shop: no\nFORGED \x1b[31mred".into(),
            ..Status::default()
        }),
        ..DiscoveryRequest::default()
    }));
    server.shows("/status.json", "\"nacks\":1");
    let status = ask(&server, &["status"]);
    let waited = ask(&server, &["wait", "shop", "--timeout", "100ms"]);
    server.signal("TERM");
    let (_, log) = tokio::task::spawn_blocking(|| server.end())
        .await
        .expect("ended");
    for text in [&status.stdout, &waited.stdout, &log] {
        assert!(text.contains("FORGED"), "{text}");
        let forged = text.lines().any(|line| line.starts_with("FORGED"));
        assert!(!forged && !text.contains('\x1b'), "{text:?}");
    }
}
