//! Tests of `oxds status` and `oxds wait` with a real client of the control plane.

use std::fs;

use oxds_client::{Bootstrap, ClientPool, XdsClient};
use oxds_core::resource::Cluster;
use oxds_testkit::hostile::{Rude, framed};
use oxds_types::ResourceType;
use oxds_types::discovery::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
    Status,
};
use prost::Message as _;
use serde_json::Value;

use crate::support::{Serve, cluster, command, folder, oxds};

/// Returns a cluster with EDS, which gRPC clients accept.
pub(crate) fn eds_cluster(name: &str) -> String {
    cluster(name)
        + "type: EDS\neds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }\n"
}

pub(crate) fn client(server: &Serve, node: &str) -> XdsClient {
    let bootstrap = Bootstrap::builder(server.grpc.to_string()).node_id(node);
    ClientPool::new(bootstrap.build().expect("complete")).client("#test")
}

fn run(server: &Serve, arguments: &[&str]) -> crate::support::Ran {
    let grpc = server.grpc.to_string();
    oxds(arguments.iter().copied().chain(["--server", &grpc]))
}

/// Given a client that watches a cluster. `wait` succeeds when the client has it, and `status` prints SYNCED. When the
/// client NACKs a change, both print the error message of the client, and exit with 1.
#[tokio::test(flavor = "multi_thread")]
async fn s68_status_and_wait_follow_a_rollout() {
    let dir = folder(&[("a.yaml", &eds_cluster("shop"))]);
    let server = Serve::start(dir.path());
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("a resource");
    run(&server, &["wait", "--for", "acked", "shop"]).expect(0, &[]);
    run(&server, &["wait", "--all"]).expect(0, &[]);
    run(&server, &["status"]).expect(
        0,
        &[
            "NODE        TYPE  STATUS  SENT",
            "checkout-1  cds   SYNCED  ",
        ],
    );

    // gRFC A27: gRPC clients do not support ORIGINAL_DST clusters.
    let unsupported =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    fs::write(dir.path().join("a.yaml"), unsupported).expect("written");
    server.shows("/status.json", "\"nacks\":1");
    run(&server, &["wait", "shop", "--timeout", "1s"]).expect(1, &["checkout-1 cds shop NACKED: "]);
    run(&server, &["status"]).expect(1, &["checkout-1  cds   NACKED  ", "  shop: "]);
    run(&server, &["status", "-o", "yaml"]).expect(1, &["id: checkout-1", "state: NACKED"]);
    let json = run(&server, &["status", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&json.expect(1, &[]).stdout).expect("JSON");
    let (node, of_type) = (&nodes["nodes"][0], &nodes["nodes"][0]["types"][0]);
    assert_eq!(
        (&node["id"], &node["protocol"]),
        (&"checkout-1".into(), &"sotw".into())
    );
    assert_eq!(
        (&of_type["state"], &of_type["type"]),
        (&"NACKED".into(), &"cds".into())
    );
    assert_ne!(of_type["sent"], of_type["acked"]);
    assert!(
        of_type["since_seconds"]
            .as_f64()
            .is_some_and(|since| since < 20.0),
        "{of_type}"
    );
}

/// Given an invalid file. `wait` prints the error for this resource and for `--all`, but not for another resource;
/// `status` prints it, too. When the file is fixed, a running `wait` succeeds long before its timeout.
#[test]
fn s73_invalid_file_is_not_live_until_fixed() {
    let wrong = cluster("a") + "lb_polizy: RANDOM\n";
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    fs::write(dir.path().join("a.yaml"), wrong).expect("written");
    server.shows("/status.json", "lb_polizy");
    let error = ["a.yaml:4:1: error: lb_polizy"];
    run(&server, &["wait", "a", "--timeout", "300ms"]).expect(1, &error);
    run(&server, &["wait", "--all", "--timeout", "50ms"]).expect(1, &error);
    run(&server, &["wait", "b"]).expect(0, &[]);
    run(&server, &["status"]).expect(1, &error);

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

/// Given a file that a program is writing: `wait` prints it, and `status` does, too. When the file is complete, `wait`
/// succeeds.
#[cfg(target_os = "linux")]
#[test]
fn file_that_is_being_written_is_not_live() {
    use std::io::Write as _;
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    let line = "a.yaml: warning: ";
    let shows = |arguments: &[&str], code: i32| {
        let mut failed = Vec::new();
        // A file whose writer pauses for three seconds is read: on a busy machine, that may be before the command runs.
        for _ in 0..20 {
            let mut file = fs::File::create(dir.path().join("a.yaml")).expect("created");
            file.write_all(b"# not whole\n").expect("written");
            server.shows("/status.json", "\"rule\":\"waiting\"");
            let ran = run(&server, arguments);
            if ran.code == Some(code) && ran.stdout.contains(line) {
                return;
            }
            failed.push(ran);
        }
        panic!("{failed:#?}");
    };
    shows(&["wait", "a", "--timeout", "1ms"], 1);
    shows(&["status"], 0);
    fs::write(dir.path().join("a.yaml"), cluster("a")).expect("written");
    run(&server, &["wait", "a"]).expect(0, &[]);
}

#[test]
fn status_and_wait_succeed_without_clients() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    run(&server, &["status"]).expect(0, &["no clients connected"]);
    run(&server, &["wait", "--all"]).expect(0, &[]);
}

#[test]
fn status_names_unreachable_control_plane() {
    let arguments = ["status", "--server", "127.0.0.1:1"];
    oxds(arguments).expect(1, &["cannot connect to 127.0.0.1:1"]);
    oxds(["wait", "--server", "127.0.0.1:1"]).expect(2, &["NAME"]);
}

/// Given `--on-nack rollback` and a client that accepted a cluster. When the client NACKs a change of the file, the
/// cluster is rolled back: `status` prints the rollback, and `wait` fails. When the file is fixed, both succeed.
#[tokio::test(flavor = "multi_thread")]
async fn s80_nacked_file_is_rolled_back_until_fixed() {
    let dir = folder(&[("a.yaml", &eds_cluster("shop"))]);
    let state = folder(&[]);
    let start = || {
        let options = [
            "--on-nack",
            "rollback",
            "--grpc",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--state",
        ];
        let mut serve = command(["serve"]);
        Serve::of(serve.args(options).args([state.path(), dir.path()]))
    };
    let server = start();
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("a resource");
    run(&server, &["wait", "shop"]).expect(0, &[]);
    let unsupported =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    fs::write(dir.path().join("a.yaml"), unsupported).expect("written");
    server.shows("/status.json", "\"nacked_by\":[\"checkout-1\"]");
    let rollback = ["cds shop rolled back to ", "checkout-1 NACKed "];
    run(&server, &["status"]).expect(1, &rollback);
    let nacked = ["checkout-1 cds shop NACKED: rolled back to "];
    run(&server, &["wait", "shop", "--timeout", "1s"]).expect(1, &nacked);

    // A3: it survives a restart.
    let deadline = std::time::Instant::now() + crate::support::TIMEOUT;
    let has_rollbacks = || {
        let mut entries = fs::read_dir(state.path()).expect("a folder");
        entries.any(|entry| {
            let name = entry.expect("an entry").file_name();
            let name = name.to_string_lossy();
            name.starts_with("rollbacks-") && !name.ends_with(".new")
        })
    };
    while !has_rollbacks() {
        assert!(std::time::Instant::now() < deadline, "no state file");
        std::thread::yield_now();
    }
    drop(server);
    let server = start();
    server.shows("/status.json", "\"nacked_by\":[\"checkout-1\"]");
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("a resource");
    run(&server, &["status"]).expect(1, &rollback);

    let fixed = eds_cluster("shop").replace("1s", "2s");
    fs::write(dir.path().join("a.yaml"), fixed).expect("written");
    server.shows("/status.json", "\"rollbacks\":[]");
    run(&server, &["wait", "shop"]).expect(0, &[]);
    run(&server, &["status"]).expect(0, &["SYNCED"]);
}

/// Answers every response of a delta stream of clusters: what has a cluster named `bad-…`, or a removal, with a NACK
/// that names nothing, and the rest with an ACK.
async fn reject_without_names(server: std::net::SocketAddr) {
    let path = "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters";
    let mut client = Rude::connect(server, 65_535).await.expect("connected");
    let mut call = client.call(path).await.expect("a call");
    call.send(framed(&DeltaDiscoveryRequest {
        node: Some(Node {
            id: "checkout-1".into(),
            ..Node::default()
        }),
        ..DeltaDiscoveryRequest::default()
    }));
    while let Ok(response) = call.message().await {
        let response = DeltaDiscoveryResponse::decode(response).expect("a response");
        let is_bad = |name: &str| name.starts_with("bad-");
        let mut resources = response.resources.iter();
        let nack = resources.any(|one| is_bad(&one.name)) || !response.removed_resources.is_empty();
        let error_detail = nack.then(|| Status {
            message: "cannot apply".into(),
            ..Status::default()
        });
        call.send(framed(&DeltaDiscoveryRequest {
            response_nonce: response.nonce,
            error_detail,
            ..DeltaDiscoveryRequest::default()
        }));
    }
}

/// Given a client that rejects 40 clusters, or a removal, without a name, and accepts everything else. `wait --all`
/// fails, and `status` does not print SYNCED, also after the client has accepted a later change.
#[tokio::test(flavor = "multi_thread")]
async fn wait_fails_while_anything_is_not_accepted() {
    let bad: Vec<String> = (0..40)
        .map(|number| cluster(&format!("bad-{number}")))
        .collect();
    for (file, text) in [("bad.yaml", bad.join("---\n")), ("b.yaml", String::new())] {
        let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
        let server = Serve::start(dir.path());
        let client = tokio::spawn(reject_without_names(server.grpc));
        server.shows("/status.json", "\"acks\":1");
        run(&server, &["wait", "--all"]).expect(0, &[]);
        if text.is_empty() {
            fs::remove_file(dir.path().join(file)).expect("removed");
        } else {
            fs::write(dir.path().join(file), text).expect("written");
        }
        server.shows("/status.json", "\"reason\":\"cannot apply\"");
        server.shows("/status.json", "\"isolating\":null");
        run(&server, &["wait", "--all", "--timeout", "300ms"]).expect(1, &["checkout-1 cds "]);
        fs::write(dir.path().join("later.yaml"), cluster("later")).expect("written");
        server.shows("/status.json", "\"acks\":2");
        run(&server, &["wait", "--all", "--timeout", "300ms"]).expect(1, &["checkout-1 cds "]);
        let status = run(&server, &["status"]);
        assert!(!status.stdout.contains("SYNCED"), "{file}: {status:?}");
        client.abort();
    }
}

/// Accepts every response of a delta stream of clusters, the route configuration `main` and the secret `key`.
async fn accept_all(server: std::net::SocketAddr) {
    let path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    let mut client = Rude::connect(server, 65_535).await.expect("connected");
    let mut call = client.call(path).await.expect("a call");
    let types = [
        (ResourceType::CLUSTER, "*"),
        (ResourceType::ROUTE, "main"),
        (ResourceType::SECRET, "key"),
    ];
    for (resource_type, name) in types {
        call.send(framed(&DeltaDiscoveryRequest {
            node: Some(Node {
                id: "edge-1".into(),
                ..Node::default()
            }),
            type_url: resource_type.type_url().to_owned(),
            resource_names_subscribe: vec![name.to_owned()],
            ..DeltaDiscoveryRequest::default()
        }));
    }
    while let Ok(response) = call.message().await {
        let response = DeltaDiscoveryResponse::decode(response).expect("a response");
        call.send(framed(&DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        }));
    }
}

/// Given a client with a route that moves to a cluster whose secret does not exist. `wait` and `status` name the
/// secret, and succeed when it appears.
#[tokio::test(flavor = "multi_thread")]
async fn s53_wait_names_the_missing_secret() {
    let route = |to: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: main\nvirtual_hosts:\n\
             - name: all\n  domains: ['*']\n  routes: [{{ match: {{ prefix: / }}, route: {{ cluster: {to} }} }}]\n"
        )
    };
    let secured = cluster("safe")
        + r#"transport_socket:
  name: tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificate_sds_secret_configs: [{ name: key, sds_config: { ads: {} } }]
"#;
    let old = [cluster("old"), route("old")].join("---\n");
    let dir = folder(&[("a.yaml", &old)]);
    let server = Serve::start(dir.path());
    let client = tokio::spawn(accept_all(server.grpc));
    server.shows("/status.json", "\"type\":\"sds\"");
    run(&server, &["wait", "main"]).expect(0, &[]);

    let new = [cluster("old"), secured, route("safe")].join("---\n");
    fs::write(dir.path().join("a.yaml"), new).expect("written");
    server.shows(
        "/status.json",
        "\"waits_for\":{\"type\":\"sds\",\"name\":\"key\",\"missing\":true}",
    );
    let reason = "waits for sds key, which does not exist";
    let line = format!("edge-1 rds main STALE: update of main {reason}");
    run(&server, &["wait", "main", "--timeout", "100ms"]).expect(1, &[&line]);
    run(&server, &["status"]).expect(0, &[&format!("update of main: {reason}")]);

    let secret = "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: key\n";
    fs::write(dir.path().join("secret.yaml"), secret).expect("written");
    run(&server, &["wait", "main"]).expect(0, &[]);
    client.abort();
}

/// Given a client whose node id and error message contain line breaks and terminal escapes. `status`, `wait` and the
/// log print them on one line, without the escapes.
#[tokio::test(flavor = "multi_thread")]
async fn s60_client_text_cannot_forge_lines_or_escapes() {
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
    let response = call.message().await.expect("a message");
    let response = DiscoveryResponse::decode(response).expect("a response");
    call.send(framed(&DiscoveryRequest {
        response_nonce: response.nonce,
        error_detail: Some(Status {
            message: "shop: no\nFORGED \x1b[31mred".into(),
            ..Status::default()
        }),
        ..DiscoveryRequest::default()
    }));
    server.shows("/status.json", "\"nacks\":1");
    let status = run(&server, &["status"]);
    let waited = run(&server, &["wait", "shop", "--timeout", "100ms"]);
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
