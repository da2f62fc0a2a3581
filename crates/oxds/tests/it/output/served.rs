//! Commands that talk to a running control plane.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use oxds_client::{Bootstrap, ClientPool};
use oxds_core::resource::Cluster;

use super::Work;
use crate::observe::serve_csds;
use crate::rollout::{client, eds_cluster};
use crate::support::{Ran, Serve, cluster, command, until};

fn served(files: &[(&str, &str)], arguments: &[&str]) -> (Work, Serve) {
    let mut work = Work::new(files);
    let server = Serve::with(&work.path().join("config"), arguments);
    server.shows("/readyz", "200 OK");
    work.replace(&server.grpc, "[GRPC]");
    work.replace(&server.http, "[HTTP]");
    (work, server)
}

/// Given a client with one of two clusters, then with an invalid version of it: clients, waits and resources.
#[tokio::test(flavor = "multi_thread")]
async fn state_of_clients_is_as_reviewed() {
    let files = [
        ("config/shop.yaml", &*eds_cluster("shop")),
        ("config/other.yaml", &*eds_cluster("other")),
    ];
    let (work, server) = served(&files, &[]);
    let grpc = server.grpc;
    work.snapshot("status.no-clients", &format!("status --server {grpc}"));
    let mut watch = client(&server, "checkout-1").watch::<Cluster>("shop");
    watch.next().await.expect("a resource");
    until(|| {
        let status = work.run(&format!("status --server {grpc}")).stdout;
        status.contains("SYNCED").then_some(()).ok_or(status)
    });
    work.snapshot("status", &format!("status --server {grpc}"));
    work.snapshot("wait", &format!("wait --all --server {grpc}"));
    work.snapshot("get", &format!("get cds --server {grpc}"));
    work.snapshot("get.yaml", &format!("get cds shop --server {grpc} -o yaml"));
    work.snapshot("get.json", &format!("get cds shop --server {grpc} -o json"));
    work.snapshot("get.missing", &format!("get cds none --server {grpc}"));
    work.snapshot(
        "deprecations.served",
        &format!("deprecations --server {grpc}"),
    );
    work.write("next/shop.yaml", &eds_cluster("shop").replace("1s", "2s"));
    work.snapshot("plan.served", &format!("plan next --server {grpc}"));

    // gRFC A27: gRPC clients do not support ORIGINAL_DST clusters.
    let unsupported =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    work.write("config/shop.yaml", &unsupported);
    server.shows("/status.json", "\"nacks\":1");
    work.write(
        "config/other.yaml",
        &(cluster("other") + "lb_polizy: RANDOM\n"),
    );
    server.shows("/status.json", "lb_polizy");
    work.snapshot("status.nacked", &format!("status --server {grpc}"));
    work.snapshot(
        "status.nacked.json",
        &format!("status --server {grpc} -o json"),
    );
    work.snapshot(
        "status.nacked.yaml",
        &format!("status --server {grpc} -o yaml"),
    );
    work.snapshot(
        "wait.timeout",
        &format!("wait --all --timeout 300ms --server {grpc}"),
    );
}

#[test]
fn unreachable_control_plane_is_as_reviewed() {
    let work = Work::new(&[]);
    work.snapshot("status.unreachable", "status --server 127.0.0.1:1");
    work.snapshot(
        "get.unreachable",
        "get cds --server 127.0.0.1:1 --timeout 1s",
    );
}

/// Given a served folder, then `watch` prints its resources; it is stopped then.
#[test]
fn watch_is_as_reviewed() {
    let (work, server) = served(&[("config/a.yaml", &cluster("a"))], &[]);
    for (name, format) in [("watch", "table"), ("watch.json", "json")] {
        let line = format!("watch cds --server {} -o {format}", server.grpc);
        let mut child = command(line.split(' '))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stdout = lines.next().expect("a line").expect("UTF-8") + "\n";
        child.kill().expect("it runs");
        child.wait().expect("ended");
        let ran = Ran {
            code: None,
            stdout,
            stderr: String::new(),
        };
        work.compare(name, &line, &ran);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csds_of_a_client_is_as_reviewed() {
    let (mut work, server) = served(&[("config/a.yaml", &eds_cluster("a"))], &[]);
    let bootstrap = Bootstrap::builder(server.grpc.to_string())
        .node_id("app-1")
        .build();
    let pool = ClientPool::new(bootstrap.expect("complete"));
    let mut watch = pool.client("#test").watch::<Cluster>("a");
    watch.next().await.expect("a resource");
    let address = serve_csds(&pool).await.to_string();
    work.replace(&address, "[CSDS]");
    work.snapshot("csds", &format!("csds {address}"));
    work.snapshot("csds.json", &format!("csds {address} -o json"));
    work.snapshot("csds.yaml", &format!("csds {address} -o yaml"));
}

#[test]
fn runtime_keys_are_as_reviewed() {
    let arguments = ["--runtime", "a.b=true", "--runtime", "a.c=5"];
    let (work, server) = served(&[("config/a.yaml", &cluster("a"))], &arguments);
    work.snapshot("runtime", &format!("runtime --server {}", server.grpc));
    work.snapshot(
        "runtime.json",
        &format!("runtime a. --server {} -o json", server.grpc),
    );
}

/// Given a server that reads a change, an invalid file and a signal, then the log has an event for each.
#[test]
fn log_of_serve_is_as_reviewed() {
    let (work, server) = served(&[("config/a.yaml", &cluster("a"))], &[]);
    work.write("config/b.yaml", &cluster("b"));
    server.shows("/status.json", "\"resources\":2");
    work.write("config/a.yaml", &(cluster("a") + "lb_polizy: RANDOM\n"));
    server.shows("/status.json", "lb_polizy");
    server.signal("TERM");
    let (code, stderr) = server.end();
    let stdout = "grpc [GRPC]\nhttp [HTTP]\n".to_owned();
    work.compare(
        "serve.log",
        "serve config",
        &Ran {
            code,
            stdout,
            stderr,
        },
    );
    work.snapshot("serve.missing-folder", "serve none");
}

/// Given a control plane without the listener, then `call` prints why its calls fail.
#[test]
fn call_is_as_reviewed() {
    let (work, server) = served(&[("config/a.yaml", &cluster("a"))], &[]);
    let bootstrap = work
        .run(&format!("bootstrap grpc --server {}", server.grpc))
        .stdout;
    work.write("bootstrap.json", &bootstrap);
    let line = "call xds:///none /shop.Checkout/Pay --timeout 3s";
    let mut command = command(line.split(' '));
    let bootstrap = work.path().join("bootstrap.json");
    let ran = command.env("GRPC_XDS_BOOTSTRAP", bootstrap).output();
    work.compare(
        "call.not-found",
        line,
        &ran.expect("the binary runs").into(),
    );
    work.snapshot(
        "call.no-bootstrap",
        "call xds:///checkout /shop.Checkout/Pay",
    );
}
