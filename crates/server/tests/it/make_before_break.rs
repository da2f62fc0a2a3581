//! Make-before-break: the pending changes of a client, as the status page shows them (S-53).

use std::sync::Arc;

use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::Server;
use oxds_types::{Reference, ResourceType};
use serde_json::{Value, json};

use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, admin, cluster, until};

const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/// Creates a route configuration that refers to this cluster.
fn route(to: &str) -> Arc<Resource> {
    let reference = Reference {
        resource_type: ResourceType::CLUSTER,
        name: to.into(),
    };
    let route = Resource::new(
        ResourceType::ROUTE,
        "main",
        format!("\x0a\x04main{to}").as_bytes(),
    );
    Arc::new(route.with_references(vec![reference]))
}

/// Returns the changes of a resource type that are held back, without their times, which must be present.
async fn held(server: &Running, resource_type: &str) -> Value {
    let status = admin::json(server.http).await;
    let resource_types = status["nodes"][0]["types"].as_array().unwrap();
    let found = resource_types
        .iter()
        .find(|found| found["type"] == resource_type)
        .unwrap();
    let mut held = found["held_back"].clone();
    assert_eq!(found["held_back_total"], held.as_array().unwrap().len());
    for one in held.as_array_mut().unwrap() {
        let seconds = one.as_object_mut().unwrap().remove("seconds");
        assert!(seconds.unwrap().as_f64().unwrap() < 15.0);
    }
    held
}

/// Given a client with a route to an old cluster, when the route moves to a new cluster and the old one is deleted, and
/// the client does not answer, then the status shows that the route waits for the new cluster and the deletion for the
/// route. When the client acknowledges, then no change is pending.
#[tokio::test]
async fn s53_status_shows_pending_changes_and_their_reasons() {
    let server = Running::start(Server::builder()).await;
    server.cache.apply(ChangeSet {
        upserts: vec![cluster("old", b"").into(), route("old")],
        ..ChangeSet::default()
    });
    let mut stream = Stream::open(server.grpc, DELTA).await;
    for (resource_type, names) in [(CDS, &[][..]), (RDS, &["main"])] {
        stream.send(&subscribe(resource_type, names));
        let response = stream.delta().await;
        stream.send(&ack_delta(&response));
    }
    until("the client is in sync", async || {
        let status = admin::json(server.http).await;
        (status["nodes"][0]["in_sync"] == true).then_some(())
    })
    .await;
    assert_eq!(held(&server, "cds").await, json!([]));

    server.cache.apply(ChangeSet {
        upserts: vec![cluster("new", b"").into(), route("new")],
        removals: vec![(ResourceType::CLUSTER, "old".into())],
    });
    let clusters = stream.delta().await;
    let removal = json!([{ "change": "removal", "name": "old",
        "waits_for": { "type": "rds", "name": "main" } }]);
    assert_eq!(held(&server, "cds").await, removal);
    let update = json!([{ "change": "update", "name": "main",
        "waits_for": { "type": "cds", "name": "new" } }]);
    assert_eq!(held(&server, "rds").await, update);

    stream.send(&ack_delta(&clusters));
    let routes = stream.delta().await;
    assert_eq!(held(&server, "rds").await, json!([]));
    assert_eq!(held(&server, "cds").await, removal);
    stream.send(&ack_delta(&routes));
    assert_eq!(stream.delta().await.removed_resources, ["old"]);
    assert_eq!(held(&server, "cds").await, json!([]));
}

/// Given a client that subscribed to a secret which does not exist, when its route moves to a cluster with this secret,
/// then the status names the secret, and the secret releases the route.
#[tokio::test]
async fn s53_status_names_a_missing_secret() {
    const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    let server = Running::start(Server::builder()).await;
    server.cache.apply(ChangeSet {
        upserts: vec![cluster("old", b"").into(), route("old")],
        ..ChangeSet::default()
    });
    let mut stream = Stream::open(server.grpc, DELTA).await;
    for (resource_type, names) in [(CDS, &[][..]), (RDS, &["main"]), (SDS, &["key"])] {
        stream.send(&subscribe(resource_type, names));
        let response = stream.delta().await;
        stream.send(&ack_delta(&response));
    }
    let key = Reference {
        resource_type: ResourceType::SECRET,
        name: "key".into(),
    };
    let safe = cluster("safe", b"").with_references(vec![key]);
    server.cache.apply(ChangeSet {
        upserts: vec![safe.into(), route("safe")],
        ..ChangeSet::default()
    });
    let clusters = stream.delta().await;
    stream.send(&ack_delta(&clusters));
    let update = json!([{ "change": "update", "name": "main",
        "waits_for": { "type": "sds", "name": "key", "missing": true } }]);
    until("the secret is named", async || {
        (held(&server, "rds").await == update).then_some(())
    })
    .await;

    let secret = Resource::new(ResourceType::SECRET, "key", b"\x0a\x03key");
    server.cache.apply(ChangeSet {
        upserts: vec![secret.into()],
        ..ChangeSet::default()
    });
    let secret = stream.delta().await;
    assert_eq!(secret.type_url, SDS);
    stream.send(&ack_delta(&secret));
    assert_eq!(stream.delta().await.type_url, RDS);
    assert_eq!(held(&server, "rds").await, json!([]));
}
