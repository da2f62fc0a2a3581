//! `oxds status --etcd` and `oxds wait --all --etcd`: what replicas report in a scripted etcd (G-37).

use oxds_core::resource::Cluster;
use oxds_etcd::rollback::{Decision, DecisionPart};
use oxds_etcd::{Place, ReplicaStatus, ServedPublish};
use oxds_types::ResourceType;

use super::{Store, prefix};
use crate::rollout::{client, eds_cluster};
use crate::support::{Ran, Serve, cluster, command, folder, oxds};

impl Store {
    /// Writes the status of a replica that serves a seq of the lane `main`, and whose clients have answered another.
    fn report(&self, replica: &str, serves: u64, settled: u64) {
        let served = ServedPublish {
            seq: serves,
            ..ServedPublish::default()
        };
        let status = ReplicaStatus {
            id: replica.to_owned(),
            build: "0.1.0".to_owned(),
            grpc: "127.0.0.1:1".to_owned(),
            lanes: [("main".to_owned(), served)].into(),
            streams: 5,
            in_sync: 4,
            settled: [("main".to_owned(), settled)].into(),
            ..ReplicaStatus::default()
        };
        self.etcd
            .put(format!("{}x/{replica}", prefix()), status.encode());
    }

    fn wait(&self, timeout: &str) -> Ran {
        oxds([
            "wait",
            "--all",
            "--timeout",
            timeout,
            "--etcd",
            &self.etcd.url(),
        ])
    }

    fn status(&self, output: &str) -> Ran {
        oxds(["status", "-o", output, "--etcd", &self.etcd.url()])
    }
}

/// given a rollback that all replicas follow / then `status` lists it with the number of nodes and their reason, as
/// text, and fails.
#[test]
fn g38_status_lists_rollbacks_of_all_replicas() {
    let store = Store::start();
    store
        .publish(folder(&[("a.yaml", &cluster("a"))]).path(), [])
        .expect(0, &[]);
    store.report("r1", 1, 1);
    store.status("table").expect(0, &["SETTLED"]);
    let place = Place {
        group: None,
        resource_type: ResourceType::CLUSTER,
        name: "a".into(),
    };
    let decision = Decision {
        parts: vec![DecisionPart {
            place: place.clone(),
            version: None,
            good: None,
        }],
        reason: "no\u{1b}[31m policy".into(),
        nodes: 7,
        replica: "r1".into(),
    };
    let key = format!("{}w/main/{place}", prefix());
    store.etcd.put(key.clone(), decision.encode());
    let text = "a rolled back to absence on all replicas, NACKed by 7 nodes: no";
    let table = store.status("table");
    table.expect(1, &["lane main: ", text]);
    assert!(!table.stdout.contains('\u{1b}'), "{table:?}");
    store
        .status("json")
        .expect(1, &["\"nodes\": 7", "\"decided_by\": \"r1\""]);
    store.etcd.put(key, "?");
    store.status("table").expect(1, &["etcd:w/main/"]);
}

/// given replicas of which one has clients that have not answered / when `wait` times out / then it names replica, lane
/// and seqs.
#[test]
fn g37_wait_names_the_replicas_that_are_missing() {
    let store = Store::start();
    store.wait("300ms").expect(1, &["nothing is published"]);
    store
        .publish(folder(&[("a.yaml", &cluster("a"))]).path(), [])
        .expect(0, &[]);
    store.wait("300ms").expect(1, &["no replica is live"]);
    store.report("r1", 1, 1);
    store.wait("20s").expect(0, &[]);
    store.report("r2", 0, 0);
    let texts = [
        "replica r2: lane main is at 1, and it serves 0",
        "5 streams, 4 in sync",
    ];
    let missing = store.wait("300ms");
    missing.expect(1, &texts);
    assert!(!missing.stdout.contains("r1"), "{missing:?}");
    store.report("r2", 1, 0);
    let texts = [
        "and its clients have answered 0",
        "replica r2: its clients are not known: cannot connect to 127.0.0.1:1",
    ];
    store.wait("300ms").expect(1, &texts);
    // A dead replica drops out when its lease ends.
    store.etcd.delete(format!("{}x/r2", prefix()));
    store.wait("20s").expect(0, &[]);
    // A name alone is known to each replica only.
    let line = ["wait", "a", "--etcd", &store.etcd.url()];
    oxds(line).expect(2, &["--all"]);
}

/// given a wait / when the last replica settles / then it ends.
#[test]
fn g37_wait_ends_when_the_last_replica_has_settled() {
    let store = Store::start();
    store
        .publish(folder(&[("a.yaml", &cluster("a"))]).path(), [])
        .expect(0, &[]);
    store.report("r1", 1, 0);
    let url = store.etcd.url();
    let mut wait = command(["wait", "--all", "--timeout", "60s", "--etcd", &url]);
    let reads = store.etcd.calls("Range");
    let mut wait = wait.spawn().expect("the binary runs");
    let reading = store
        .etcd
        .reach(|activity| activity.calls.get("Range").copied().unwrap_or(0) > reads + 8);
    store.runtime.block_on(reading).expect("it reads again");
    assert_eq!(wait.try_wait().expect("waited"), None);
    store.report("r1", 1, 1);
    assert!(wait.wait().expect("ended").success());
}

/// given two replicas with clients / when a client NACKs a publish / then `wait` and `status` name replica, node, type,
/// name and reason; a node that leaves is away until it connects to any replica.
#[test]
fn g37_missing_answers_are_listed_by_replica_and_node() {
    let store = Store::start();
    // Clients live on the threads of the store.
    let _runtime = store.runtime.enter();
    let good = folder(&[("a.yaml", &eds_cluster("shop"))]);
    store.publish(good.path(), []).expect(0, &[]);
    let url = store.etcd.url();
    let serve = |id: &str| {
        let ports = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let line = ["serve", "--etcd", &url, "--replica", id];
        Serve::of(&mut command(line.into_iter().chain(ports)))
    };
    let (first, second) = (serve("r1"), serve("r2"));
    let connected = client(&first, "checkout-1");
    let mut watch = connected.watch::<Cluster>("shop");
    store.runtime.block_on(watch.next()).expect("a resource");
    store.wait("30s").expect(0, &[]);

    // gRFC A27: gRPC clients do not support ORIGINAL_DST clusters.
    let unsupported =
        eds_cluster("shop").replace("EDS\n", "ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\n");
    let bad = folder(&[("a.yaml", &unsupported)]);
    store.publish(bad.path(), []).expect(0, &["1 changed"]);
    let nack = "replica r1: checkout-1 cds shop NACKED: ";
    let failed = store.wait("30s");
    failed.expect(1, &[nack]);
    assert!(!failed.stdout.contains("replica r2"), "{failed:?}");
    store.status("table").expect(1, &[nack]);
    let json = store.status("json");
    json.expect(1, &["\"node\": \"checkout-1\"", "\"state\": \"NACKED\""]);

    store.publish(good.path(), []).expect(0, &["1 changed"]);
    drop((watch, connected));
    first.shows("/status.json", "\"away\":[{\"id\":\"checkout-1\"");
    store.wait("30s").expect(0, &[]);
    store.status("table").expect(0, &["checkout-1 AWAY"]);
    let mut watch = client(&second, "checkout-1").watch::<Cluster>("shop");
    store.runtime.block_on(watch.next()).expect("a resource");
    let back = store.status("table");
    assert!(!back.stdout.contains("AWAY"), "{back:?}");
}

/// given options that select a control plane, or a folder / then they cannot be used with `--etcd`.
#[test]
fn g37_etcd_and_server_are_an_error() {
    let store = Store::start();
    let url = store.etcd.url();
    for line in [
        &["get", "cds", "--server", "127.0.0.1:1"][..],
        &["get", "cds", "--dir", "config"],
        &["get", "cds", "--node-id", "a"],
        &["status", "--server", "127.0.0.1:1"],
        &["wait", "--all", "--server", "127.0.0.1:1"],
        &["wait", "--all", "--bootstrap", "bootstrap.json"],
    ] {
        let ran = oxds(line.iter().copied().chain(["--etcd", &url]));
        ran.expect(2, &["cannot be used with"]);
    }
}

/// given replicas / when `status` runs / then it has a line for each, and the exit code tells whether all have settled.
#[test]
fn g37_status_lists_replicas_and_lanes() {
    let store = Store::start();
    store
        .publish(folder(&[("a.yaml", &cluster("a"))]).path(), [])
        .expect(0, &[]);
    store
        .status("table")
        .expect(0, &["lane main: publish 1", "no replica is live"]);
    store.report("r1", 1, 1);
    store.status("table").expect(0, &["r1", "SETTLED", "0.1.0"]);
    store.report("r2", 1, 0);
    store.report("r3", 0, 0);
    let table = store.status("table");
    table.expect(1, &["PENDING", "BEHIND"]);
    let json = store.status("json");
    json.expect(
        1,
        &["\"state\": \"BEHIND\"", "\"serves\": 0", "\"main\": 1"],
    );
    store.etcd.put(format!("{}x/r4", prefix()), "\u{1b}[31m");
    store
        .status("table")
        .expect(1, &["etcd:x/r4: not a status"]);
}
