//! CSDS over a real socket (S-68).

use std::sync::Arc;

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{
    ClientStatusRequest, ClientStatusResponse, ConfigStatus,
};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{NodeMatcher, StringMatcher};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::ResourceType;
use oxds_types::discovery::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, Status,
};

use crate::client::{CDS, Client, DELTA, SOTW, Stream, ack, ack_delta, ask, subscribe};
use crate::{Running, cluster, until};

pub(crate) const FETCH: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
pub(crate) const STREAM: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

async fn fetch(server: &Running, request: &ClientStatusRequest) -> ClientStatusResponse {
    let mut client = Client::connect(server.grpc).await;
    client.unary(FETCH, request).await
}

fn by_id(pattern: MatchPattern) -> ClientStatusRequest {
    ClientStatusRequest {
        node_matchers: vec![NodeMatcher {
            node_id: Some(StringMatcher {
                match_pattern: Some(pattern),
                ..StringMatcher::default()
            }),
            ..NodeMatcher::default()
        }],
        ..ClientStatusRequest::default()
    }
}

/// Waits until CSDS reports this status for a resource of the only client, and returns the entry.
async fn resource(server: &Running, name: &str, expected: ConfigStatus) -> GenericXdsConfig {
    until(name, async || {
        let response = fetch(server, &ClientStatusRequest::default()).await;
        let all = &response.config.first()?.generic_xds_configs;
        let found = all.iter().find(|config| config.name == name)?.clone();
        (found.config_status() == expected).then_some(found)
    })
    .await
}

/// Given a client that accepted clusters a and b, then both are SYNCED, with their contents. When a changes and the
/// client NACKs it, then a is ERROR, with the client's reason, the rejected contents and the version that it still has.
#[tokio::test]
async fn s68_each_resource_is_synced_or_in_error() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    let first = stream.delta().await;
    let sent = resource(&server, "a", ConfigStatus::Stale).await;
    assert_eq!(sent.xds_config, None, "sent, but not acknowledged yet");
    stream.send(&ack_delta(&first));
    let synced = resource(&server, "a", ConfigStatus::Synced).await;
    assert_eq!(synced.client_status(), ClientResourceStatus::Acked);
    assert_eq!(synced.xds_config.unwrap().value, b"\x0a\x01a");
    assert_eq!(synced.type_url, CDS);

    server.cache.apply(ChangeSet {
        upserts: vec![Arc::new(cluster("a", b"\x10\x03"))],
        ..ChangeSet::default()
    });
    let bad = stream.delta().await;
    let mut nack = ack_delta(&bad);
    nack.error_detail = Some(Status {
        message: "a: no".into(),
        ..Status::default()
    });
    stream.send(&nack);
    let nacked = resource(&server, "a", ConfigStatus::Error).await;
    assert_eq!(nacked.client_status(), ClientResourceStatus::Nacked);
    assert_eq!(nacked.version_info, synced.version_info);
    let error = nacked.error_state.unwrap();
    assert_eq!(
        (&*error.details, &error.version_info),
        ("a: no", &bad.resources[0].version)
    );
    assert_eq!(
        error.failed_configuration.unwrap().value,
        b"\x0a\x01a\x10\x03"
    );
    assert!(error.last_update_attempt.unwrap().seconds > 1_600_000_000);
    resource(&server, "b", ConfigStatus::Synced).await;
}

/// Answers a delta response with a NACK that names nothing.
fn unnamed_nack(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        error_detail: Some(Status {
            message: "cannot apply".into(),
            ..Status::default()
        }),
        ..ack_delta(response)
    }
}

/// Returns whether CSDS shows everything of every client as accepted.
async fn all_synced(server: &Running) -> bool {
    let response = fetch(server, &ClientStatusRequest::default()).await;
    let mut configs = response
        .config
        .iter()
        .flat_map(|one| &one.generic_xds_configs);
    configs.all(|one| one.config_status() == ConfigStatus::Synced)
}

/// Given a client that rejects 40 clusters without a name, whatever parts they come in, and accepts everything else:
/// CSDS and the status never show that it has accepted them, also after later ACKs.
#[tokio::test]
async fn s68_many_unnamed_resources_are_not_shown_as_accepted() {
    let server = Running::with_clusters(&["good"]).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    let first = stream.delta().await;
    stream.send(&ack_delta(&first));
    until("in sync", async || all_synced(&server).await.then_some(())).await;
    let names: Vec<String> = (0..40).map(|number| format!("bad-{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    server.cache.apply(crate::upsert(&names));
    let mut rejected = 0;
    loop {
        let response = stream.delta().await;
        let is_bad = |one: &oxds_types::discovery::Resource| one.name.starts_with("bad-");
        assert!(response.resources.iter().any(is_bad), "{response:?}");
        stream.send(&unnamed_nack(&response));
        rejected += 1;
        let isolating = until("the NACK", async || {
            let kind = crate::admin::json(server.http).await["nodes"][0]["types"][0].clone();
            (kind["nacks"] == rejected).then(|| !kind["isolating"].is_null())
        })
        .await;
        assert!(!all_synced(&server).await, "after {rejected} NACKs");
        if !isolating {
            break;
        }
    }
    server.cache.apply(crate::upsert(&["later"]));
    let later = stream.delta().await;
    assert_eq!(later.resources.len(), 1, "{later:?}");
    stream.send(&ack_delta(&later));
    until("the ACK", async || {
        let acks = server.metric("oxds_acks_total").await;
        (acks >= 2).then_some(())
    })
    .await;
    assert!(!all_synced(&server).await);
    let status = crate::admin::json(server.http).await;
    let node = &status["nodes"][0];
    assert_eq!(node["in_sync"], false, "{node}");
    assert_ne!(node["types"][0]["state"], "SYNCED", "{node}");
}

/// Given a client that rejects the removal of a cluster, by name or not: CSDS and the status do not show that it has
/// accepted everything, also after a later ACK.
#[tokio::test]
async fn s68_nacked_removal_is_not_shown_as_accepted() {
    for reason in ["cannot remove", "b: is in use"] {
        let server = Running::with_clusters(&["a", "b"]).await;
        let mut stream = Stream::open(server.grpc, DELTA).await;
        stream.send(&subscribe(CDS, &[]));
        let first = stream.delta().await;
        stream.send(&ack_delta(&first));
        until("in sync", async || all_synced(&server).await.then_some(())).await;
        server.cache.apply(crate::removal(&["b"]));
        let removal = stream.delta().await;
        assert_eq!(removal.removed_resources, ["b"]);
        assert!(!all_synced(&server).await, "without an answer");
        let mut nack = unnamed_nack(&removal);
        nack.error_detail.as_mut().unwrap().message = reason.into();
        stream.send(&nack);
        server
            .counts(r#"oxds_nacks_total{resource_type="cds"} 1"#)
            .await;
        assert!(!all_synced(&server).await, "{reason}");
        server.cache.apply(crate::upsert(&["c"]));
        let response = stream.delta().await;
        stream.send(&ack_delta(&response));
        until("the ACK", async || {
            let acks = server.metric("oxds_acks_total").await;
            (acks >= 2).then_some(())
        })
        .await;
        assert!(!all_synced(&server).await, "{reason}, after an ACK");
        let status = crate::admin::json(server.http).await;
        assert_eq!(status["nodes"][0]["in_sync"], false, "{reason}");
    }
}

/// Given a client that subscribes to a missing name, then CSDS reports NOT_SENT and DOES_NOT_EXIST.
#[tokio::test]
async fn s68_missing_resource_is_reported_as_not_sent() {
    let server = Running::with_clusters(&["a"]).await;
    let stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &["a", "z"]));
    let missing = resource(&server, "z", ConfigStatus::NotSent).await;
    assert_eq!(missing.client_status(), ClientResourceStatus::DoesNotExist);
}

/// Given a secret that a client accepted, then it is SYNCED without contents. With `exclude_resource_contents`, CSDS
/// shows no contents at all.
#[tokio::test]
async fn s68_secrets_are_not_shown() {
    let server = Running::with_clusters(&["a"]).await;
    server.cache.apply(ChangeSet {
        upserts: vec![Arc::new(Resource::new(
            ResourceType::SECRET,
            "key",
            b"\x0a\x03key",
        ))],
        ..ChangeSet::default()
    });
    let mut stream = Stream::open(server.grpc, SOTW).await;
    let subscription = ask(ResourceType::SECRET.type_url(), &["key"]);
    stream.send(&subscription);
    let response = stream.sotw().await;
    stream.send(&DiscoveryRequest {
        resource_names: subscription.resource_names,
        ..ack(&response)
    });
    stream.send(&ask(CDS, &[]));
    stream.sotw_acked().await;
    let secret = resource(&server, "key", ConfigStatus::Synced).await;
    assert_eq!(secret.xds_config, None);

    resource(&server, "a", ConfigStatus::Synced).await;
    let request = ClientStatusRequest {
        exclude_resource_contents: true,
        ..ClientStatusRequest::default()
    };
    let response = fetch(&server, &request).await;
    let all = &response.config[0].generic_xds_configs;
    assert!(all.len() == 2 && all.iter().all(|config| config.xds_config.is_none()));
}

/// Given one node with two streams on one connection, and another node, then CSDS shows two clients. A stream of the
/// first node on its own connection is a third client. Node matchers select clients, also over `StreamClientStatus`; an
/// empty matcher is invalid.
#[tokio::test]
async fn s68_node_matchers_filter_clients() {
    let server = Running::with_clusters(&["a"]).await;
    let mut connection = Client::connect(server.grpc).await;
    let mut streams = Vec::new();
    for path in [
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
        "/envoy.service.listener.v3.ListenerDiscoveryService/StreamListeners",
    ] {
        let mut stream = connection.open(path).await;
        stream.send(&ask("", &[]));
        stream.sotw_acked().await;
        streams.push(stream);
    }
    let mut other = Stream::open(server.grpc, SOTW).await;
    let mut request = ask(CDS, &[]);
    request.node.as_mut().unwrap().id = "other".into();
    other.send(&request);
    other.sotw_acked().await;

    let all = fetch(&server, &ClientStatusRequest::default()).await;
    let ids = |response: &ClientStatusResponse| -> Vec<String> {
        let nodes = response.config.iter().map(|config| config.node.clone());
        nodes.map(|node| node.unwrap().id).collect()
    };
    assert_eq!(ids(&all), ["other", "test-1"]);

    let mut namesake = Stream::open(server.grpc, SOTW).await;
    namesake.send(&ask(CDS, &[]));
    namesake.sotw_acked().await;
    let all = fetch(&server, &ClientStatusRequest::default()).await;
    assert_eq!(ids(&all), ["other", "test-1", "test-1"]);
    drop(namesake);
    until("the third client is gone", async || {
        let all = fetch(&server, &ClientStatusRequest::default()).await;
        (all.config.len() == 2).then_some(())
    })
    .await;

    let mut stream = Stream::open(server.grpc, STREAM).await;
    for (pattern, expected) in [("oth", "other"), ("test-", "test-1")] {
        stream.send(&by_id(MatchPattern::Prefix(pattern.into())));
        let response: ClientStatusResponse = stream.message().await;
        assert_eq!(ids(&response), [expected]);
    }
    stream.send(&ClientStatusRequest {
        node_matchers: vec![NodeMatcher {
            node_id: Some(StringMatcher::default()),
            ..NodeMatcher::default()
        }],
        ..ClientStatusRequest::default()
    });
    let (code, message) = stream.status().await;
    assert_eq!(code, 3, "{message}");
}
