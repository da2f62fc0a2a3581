//! Rollback of changes that clients NACK, over real sockets (S-80).

use envoy_types::pb::envoy::service::status::v3::{
    ClientStatusRequest, ClientStatusResponse, ConfigStatus,
};
use oxds_core::snapshot::ChangeSet;
use oxds_server::{Builder, OnNack, Server, Store, Update};
use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryResponse, Status};
use tokio::sync::mpsc;

use crate::admin::{get, json};
use crate::client::{CDS, Client, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, cluster, until};

/// A store that yields the change sets that the test sends.
struct TestStore(mpsc::UnboundedReceiver<ChangeSet>);

impl Store for TestStore {
    async fn next(&mut self) -> Option<Update> {
        let changes = self.0.recv().await?;
        Some(changes.into())
    }
}

struct Rollout {
    server: Running,
    store: mpsc::UnboundedSender<ChangeSet>,
}

impl Rollout {
    /// Starts a server whose store has version 1 of the cluster.
    async fn begin(policy: OnNack) -> Self {
        Self::of(Server::builder().on_nack(policy), 1).await
    }

    /// Starts a server whose store has this version of the cluster.
    async fn of(builder: Builder, content: u8) -> Self {
        let (store, changes) = mpsc::unbounded_channel();
        let server = Running::start(builder.store(TestStore(changes))).await;
        let rollout = Self { server, store };
        rollout.change(content);
        rollout
    }

    fn change(&self, content: u8) {
        let changes = ChangeSet::default().put(cluster("a", &[0x10, content]));
        self.store.send(changes).unwrap();
    }

    /// Connects a client that accepted version 1.
    async fn client(&self, id: &str) -> Stream {
        let mut stream = Stream::open(self.server.grpc, DELTA).await;
        let mut request = subscribe(CDS, &[]);
        request.node.as_mut().unwrap().id = id.into();
        stream.send(&request);
        accept(&mut stream, 1).await;
        stream
    }

    /// Waits until every client acknowledged everything.
    async fn settled(&self) {
        until("all in sync", async || {
            let nodes = json(self.server.http).await["nodes"].clone();
            let mut nodes = nodes.as_array().unwrap().iter();
            nodes.all(|node| node["in_sync"] == true).then_some(())
        })
        .await;
    }

    fn served(&self) -> u8 {
        let snapshot = self.server.cache.snapshot();
        let served = snapshot.get(&ResourceType::CLUSTER, "a").unwrap();
        *served.value().last().unwrap()
    }
}

/// Returns the next response, and checks its content.
async fn next(stream: &mut Stream, content: u8) -> DeltaDiscoveryResponse {
    let response = stream.delta().await;
    let body = response.resources[0].resource.clone().unwrap();
    assert_eq!(body.value.last(), Some(&content));
    response
}

async fn accept(stream: &mut Stream, content: u8) {
    let response = next(stream, content).await;
    stream.send(&ack_delta(&response));
}

async fn nack(stream: &mut Stream, content: u8) {
    let mut request = ack_delta(&next(stream, content).await);
    request.error_detail = Some(Status {
        message: "a: no such policy".into(),
        ..Status::default()
    });
    stream.send(&request);
}

/// Given two clients that accepted version 1, when the store yields version 2 and one client NACKs it, then version 1
/// is served again to both, and status, CSDS and metrics show the rollback and its reason. When the store yields
/// version 3, then it is served, and no rollback is shown.
#[tokio::test]
async fn s80_nacked_change_is_rolled_back() {
    let rollout = Rollout::begin(OnNack::Rollback { threshold: 0 }).await;
    let mut good = rollout.client("good").await;
    let mut bad = rollout.client("bad").await;
    rollout.settled().await;
    rollout.change(2);
    accept(&mut good, 2).await;
    nack(&mut bad, 2).await;
    // The client that NACKed gets version 1, too: version 2 was sent to it last.
    accept(&mut good, 1).await;
    accept(&mut bad, 1).await;
    assert_eq!(rollout.served(), 1);

    let rollback = json(rollout.server.http).await["rollbacks"][0].clone();
    assert_eq!(
        (&rollback["type"], &rollback["name"]),
        (&"cds".into(), &"a".into())
    );
    assert_eq!(rollback["nacked_by"][0], "bad");
    assert_eq!(rollback["reason"], "a: no such policy");
    let mut csds = Client::connect(rollout.server.grpc).await;
    let response: ClientStatusResponse = csds
        .unary(crate::csds::FETCH, &ClientStatusRequest::default())
        .await;
    assert_eq!(response.config.len(), 2);
    for client in &response.config {
        let of_a = &client.generic_xds_configs[0];
        assert_eq!(of_a.config_status(), ConfigStatus::Error);
        let error = of_a.error_state.as_ref().unwrap();
        assert_eq!(rollback["version"], error.version_info);
        assert_eq!(
            error.failed_configuration.as_ref().unwrap().value.last(),
            Some(&2)
        );
        assert!(
            error.details.contains("NACKed by bad: a: no such policy"),
            "{error:?}"
        );
    }
    let (_, metrics) = get(rollout.server.http, "/metrics").await;
    for line in [
        r#"oxds_rollbacks_total{resource_type="cds"} 1"#,
        "oxds_rolled_back 1",
    ] {
        assert!(metrics.contains(line), "{line} not in\n{metrics}");
    }

    // Both clients are served the version of before: their pages say so, and why.
    for (at, is_cause) in [("stream:0", false), ("stream:1", true)] {
        let view = format!("/client?at={at}");
        let (_, page) = get(rollout.server.http, &view).await;
        let rolled_back = page.split("Rolled back").nth(1).unwrap();
        assert!(rolled_back.contains("a: no such policy"), "{page}");
        assert_eq!(
            rolled_back.contains("<b>this client</b>"),
            is_cause,
            "{page}"
        );
    }
    let (_, page) = get(rollout.server.http, "/history").await;
    assert!(page.contains("rollback"), "{page}");

    rollout.change(3);
    accept(&mut good, 3).await;
    accept(&mut bad, 3).await;
    rollout.settled().await;
    let (_, page) = get(rollout.server.http, "/client?at=stream:1").await;
    assert!(!page.contains("Rolled back"), "{page}");
    assert_eq!(
        json(rollout.server.http).await["rollbacks"],
        serde_json::json!([])
    );
}

/// Given a rollback and a server that dies, when it starts again and the store still has what was rejected, then the
/// version of before is served, to clients of before and to new ones, and the rollback is shown with its time. The next
/// change of the store ends it, and the file.
#[tokio::test]
async fn s80_rollback_survives_the_death_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/rollbacks");
    let policy = OnNack::Rollback { threshold: 0 };
    let builder = || Server::builder().on_nack(policy).rollback_file(&file);
    let rollout = Rollout::of(builder(), 1).await;
    let mut client = rollout.client("edge-1").await;
    rollout.settled().await;
    rollout.change(2);
    nack(&mut client, 2).await;
    accept(&mut client, 1).await;
    until("the file", async || file.exists().then_some(())).await;
    rollout.server.task.abort();
    drop((rollout, client));

    let rollout = Rollout::of(builder(), 2).await;
    let _client = rollout.client("edge-2").await;
    assert_eq!(rollout.served(), 1);
    let rollback = json(rollout.server.http).await["rollbacks"][0].clone();
    assert_eq!(
        (&rollback["name"], &rollback["nacked_by"][0]),
        (&"a".into(), &"edge-1".into())
    );
    assert_eq!(rollback["reason"], "a: no such policy");
    rollout.settled().await;
    rollout.change(3);
    until("the next version", async || {
        (rollout.served() == 3).then_some(())
    })
    .await;
    until("no file", async || (!file.exists()).then_some(())).await;
}

/// Given a state file that is not one: the server starts, and serves what the store has.
#[tokio::test]
async fn s80_malformed_state_does_not_stop_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rollbacks");
    std::fs::write(&file, "nonsense").unwrap();
    let policy = OnNack::Rollback { threshold: 0 };
    let builder = Server::builder().on_nack(policy).rollback_file(&file);
    let rollout = Rollout::of(builder, 1).await;
    let mut client = rollout.client("edge-1").await;
    rollout.settled().await;
    rollout.change(2);
    nack(&mut client, 2).await;
    accept(&mut client, 1).await;
    until("a new file", async || {
        let state = std::fs::read(&file).unwrap();
        (state != b"nonsense").then_some(())
    })
    .await;
}

/// Given the default policy, or a threshold of one node, when one node NACKs a change, then the change stays. With the
/// threshold, the NACK of a second node rolls it back.
#[tokio::test]
async fn s80_change_stays_below_the_nack_threshold() {
    for policy in [OnNack::Keep, OnNack::Rollback { threshold: 1 }] {
        let rollout = Rollout::begin(policy).await;
        let mut first = rollout.client("first").await;
        let mut second = rollout.client("second").await;
        rollout.settled().await;
        rollout.change(2);
        nack(&mut first, 2).await;
        until("the first NACK", async || {
            let (_, metrics) = get(rollout.server.http, "/metrics").await;
            metrics
                .contains(r#"oxds_nacks_total{resource_type="cds"} 1"#)
                .then_some(())
        })
        .await;
        assert_eq!(rollout.served(), 2);
        nack(&mut second, 2).await;
        until("the second NACK", async || {
            let (_, metrics) = get(rollout.server.http, "/metrics").await;
            metrics
                .contains(r#"oxds_nacks_total{resource_type="cds"} 2"#)
                .then_some(())
        })
        .await;
        let expected = if policy == OnNack::Keep { 2 } else { 1 };
        until("the expected version", async || {
            (rollout.served() == expected).then_some(())
        })
        .await;
    }
}

/// Given a poll client, when it NACKs a change with its next request, then the change is rolled back.
#[tokio::test]
async fn s80_nacks_of_poll_clients_count() {
    let rollout = Rollout::begin(OnNack::Rollback { threshold: 0 }).await;
    let http = rollout.server.http;
    let mut request = serde_json::json!({"node": {"id": "rest-1"}});
    let first = until("version 1", async || {
        let (_, response) = crate::polling::poll(&rollout.server, &request, None).await;
        response["versionInfo"].as_str().map(str::to_owned)
    })
    .await;
    request["versionInfo"] = first.into();
    crate::polling::poll(&rollout.server, &request, Some(0)).await;
    rollout.change(2);
    let (_, response) = crate::polling::poll(&rollout.server, &request, Some(10)).await;
    assert_ne!(response["versionInfo"], request["versionInfo"]);
    request["errorDetail"] = serde_json::json!({"message": "no"});
    crate::polling::poll(&rollout.server, &request, Some(0)).await;
    assert_eq!(rollout.served(), 1);
    assert_eq!(json(http).await["rollbacks"][0]["nacked_by"][0], "rest-1");
}
