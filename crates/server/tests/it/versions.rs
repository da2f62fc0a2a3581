//! Clients of API v2 over a real socket (S-62, S-63).

use std::path::Path;
use std::sync::Arc;

use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;
use http::StatusCode;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::Server;
use oxds_types::codec::{Format, Options, decode};
use oxds_types::descriptor::v2_pool;
use oxds_types::resource_type::ADS;
use oxds_types::{ApiVersion, Glob};
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::{Value, json};

use crate::admin;
use crate::client::{Client, Stream, ask, subscribe};
use crate::load::{hello, report};
use crate::polling::post;
use crate::{Running, until};

const V2_LDS: &str = "type.googleapis.com/envoy.api.v2.Listener";
const V2_CDS: &str = "type.googleapis.com/envoy.api.v2.Cluster";

const RESOURCES: &str = "
- '@type': type.googleapis.com/envoy.config.listener.v3.Listener
  name: shop
  api_listener:
    api_listener:
      '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: shop
      rds: { route_config_name: shop, config_source: { ads: {} } }
      http_filters:
      - name: envoy.filters.http.router
        typed_config: { '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: plain
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: modern
  load_balancing_policy:
    policies:
    - typed_extension_config:
        name: round_robin
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin
";

fn load(yaml: &str) -> ChangeSet {
    let options = Options::default();
    let loaded = decode(
        Path::new("shop.yaml"),
        Format::Yaml,
        yaml.as_bytes(),
        &options,
    );
    let upserts = loaded
        .unwrap()
        .into_iter()
        .map(|one| Arc::new(Resource::from(one)));
    ChangeSet {
        upserts: upserts.collect(),
        ..ChangeSet::default()
    }
}

async fn shop() -> Running {
    let server = Running::start(Server::builder()).await;
    server.cache.apply(load(RESOURCES));
    server
}

/// Decodes a resource as a v2 client does: with the descriptors of v2. There must be no unknown field.
fn read(type_url: &str, value: &[u8]) -> Value {
    let (_, name) = type_url.rsplit_once('/').unwrap();
    let descriptor = v2_pool().get_message_by_name(name).unwrap();
    let message = DynamicMessage::decode(descriptor, value).unwrap();
    assert_eq!(message.unknown_fields().count(), 0);
    let options = SerializeOptions::new();
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap()
}

/// Given a listener with a connection manager with a filter, when a v2 client subscribes to it over SotW or delta, then
/// each nested type URL is that of v2.
#[tokio::test]
async fn s62_nested_type_urls_are_v2() {
    let server = shop().await;
    let service = &ADS[1];
    let path = |method: Option<&str>| format!("/{}/{}", service.name, method.unwrap());
    let mut sotw = Stream::open(server.grpc, &path(service.stream)).await;
    sotw.send(&ask(V2_LDS, &[]));
    let mut delta = Stream::open(server.grpc, &path(service.delta)).await;
    delta.send(&subscribe(V2_LDS, &[]));
    let by_sotw = sotw.sotw().await.resources.remove(0);
    let by_delta = delta.delta().await.resources.remove(0).resource.unwrap();
    assert_eq!(by_sotw, by_delta);
    let listener = read(&by_sotw.type_url, &by_sotw.value);
    let manager = &listener["apiListener"]["apiListener"];
    assert_eq!(
        manager["@type"],
        "type.googleapis.com/envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager"
    );
    assert_eq!(
        manager["httpFilters"][0]["typedConfig"]["@type"],
        "type.googleapis.com/envoy.config.filter.http.router.v2.Router"
    );
    assert_eq!(manager["rds"]["routeConfigName"], "shop");
}

/// Given a cluster that v2 can express and one that it cannot, when v2 clients subscribe by stream and REST, then they
/// get the first, and status and metrics report the other with the reason. When the cluster is fixed, then they get
/// both.
#[tokio::test]
async fn s63_resource_v2_cannot_express_is_reported() {
    let server = shop().await;
    server
        .counts("oxds_not_representable{resource_type=\"cds\"} 0")
        .await;
    let path = format!("/{}/{}", ADS[1].name, ADS[1].stream.unwrap());
    let mut stream = Stream::open(server.grpc, &path).await;
    stream.send(&ask(V2_CDS, &[]));
    let first = stream.sotw_acked().await;
    let names = |response: &oxds_types::discovery::DiscoveryResponse| -> Vec<Value> {
        let read =
            |any: &oxds_types::discovery::Any| read(&any.type_url, &any.value)["name"].clone();
        response.resources.iter().map(read).collect()
    };
    assert_eq!(names(&first), ["plain"]);

    server
        .counts("oxds_not_representable{resource_type=\"cds\"} 1")
        .await;
    let status = admin::json(server.http).await;
    let clusters = &status["snapshot"]["types"][0];
    assert_eq!(clusters["resources"], 2);
    assert_eq!(
        clusters["not_representable"],
        json!([{
            "name": "modern",
            "reasons": ["load_balancing_policy.policies[0].typed_extension_config: \
                         envoy.api.v2.LoadBalancingPolicy.Policy has no such field"],
        }])
    );
    until("the client is in sync", async || {
        let status = admin::json(server.http).await;
        (status["nodes"][0]["in_sync"] == true).then_some(())
    })
    .await;

    let (status, body) = post(server.http, "/v2/discovery:clusters", "{}", None).await;
    assert_eq!(status, StatusCode::OK);
    let response: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(response["typeUrl"], V2_CDS);
    assert_eq!(
        response["resources"],
        json!([{"@type": V2_CDS, "name": "plain"}])
    );

    let fixed = "{ '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: modern }";
    server.cache.apply(load(fixed));
    assert_eq!(names(&stream.sotw_acked().await), ["modern", "plain"]);
    server
        .counts("oxds_not_representable{resource_type=\"cds\"} 0")
        .await;
}

/// Given a cluster of a group and a cluster of all nodes that v2 cannot express, when a v2 client of the group
/// connects, then the status reports each where it comes from, and the metric counts both.
#[tokio::test]
async fn s63_group_resource_v2_cannot_express_is_reported() {
    let server = shop().await;
    let modern = RESOURCES.rsplit_once("\n- ").unwrap().1;
    let special = format!("- {}", modern.replace("name: modern", "name: special"));
    let matcher = NodeMatcher {
        id: Some(Glob::new("test-*")),
        ..NodeMatcher::default()
    };
    let special = load(&special).upserts;
    server.cache.replace_group("edge", matcher, special);
    let path = format!("/{}/{}", ADS[1].name, ADS[1].stream.unwrap());
    let mut stream = Stream::open(server.grpc, &path).await;
    stream.send(&ask(V2_CDS, &[]));
    stream.sotw_acked().await;

    let status = admin::json(server.http).await;
    let withheld = &status["groups"][0]["not_representable"];
    assert_eq!(withheld.as_array().unwrap().len(), 1, "{withheld}");
    assert_eq!(
        (&withheld[0]["type"], &withheld[0]["name"]),
        (&json!("cds"), &json!("special"))
    );
    let reason = withheld[0]["reasons"][0].as_str().unwrap();
    assert!(
        reason.starts_with("load_balancing_policy.policies[0]"),
        "{reason}"
    );
    server
        .counts("oxds_not_representable{resource_type=\"cds\"} 2")
        .await;
}

/// Given a listener with nested type URLs, when a client polls it over v2 REST, then every nested type URL is of v2.
#[tokio::test]
async fn s62_rest_supports_v2() {
    let server = shop().await;
    let (_, body) = post(server.http, "/v2/discovery:listeners", "{}", None).await;
    let response: Value = serde_json::from_str(&body).unwrap();
    let listener = &response["resources"][0];
    assert_eq!(listener["@type"], V2_LDS);
    let filter = &listener["apiListener"]["apiListener"]["httpFilters"][0]["typedConfig"];
    assert_eq!(
        filter["@type"],
        "type.googleapis.com/envoy.config.filter.http.router.v2.Router"
    );
    let (_, body) = post(server.http, "/v3/discovery:listeners", "{}", None).await;
    assert!(
        body.contains("router.v3.Router") && !body.contains("v2"),
        "{body}"
    );
}

/// Given a client that reports loads over v2, then it gets a response and the status shows the load, as for v3.
#[tokio::test]
async fn s62_s66_loads_are_accepted_over_v2() {
    let server = Running::with_clusters(&["a"]).await;
    let path = "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats";
    let mut stream = Stream::open(server.grpc, path).await;
    stream.send(&hello(&[]));
    let response: LoadStatsResponse = stream.message().await;
    assert_eq!(response.clusters, ["a"]);
    stream.send(&report(7));
    until("the load", async || {
        let load = admin::json(server.http).await["loads"][0].clone();
        (load["localities"][0]["requests"]["issued"] == 7).then_some(())
    })
    .await;
}

/// Given a server that has dropped v2, when a client uses v2 in any way, then it gets the reason; a client of v3 is
/// served, and a stream that asks for a type of v2 ends.
#[tokio::test]
async fn v61_dropped_major_is_refused_on_every_path() {
    const REASON: &str = "API v2 is not served here: expected v3 or later";
    const UNIMPLEMENTED: u32 = 12;
    let builder = Server::builder().oldest_api(ApiVersion::V3);
    let server = Running::start(builder).await;
    server.cache.apply(load(RESOURCES));
    // gRFC "gRPC over HTTP/2": the message of a status is percent-encoded.
    let refused = (UNIMPLEMENTED, REASON.replace(' ', "%20"));
    let ads = |version: usize| format!("/{}/{}", ADS[version].name, ADS[version].stream.unwrap());

    let mut stream = Stream::open(server.grpc, &ads(1)).await;
    stream.send(&ask(V2_CDS, &[]));
    assert_eq!(stream.status().await, refused);
    let mut loads = Stream::open(
        server.grpc,
        "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats",
    )
    .await;
    loads.send(&hello(&[]));
    assert_eq!(loads.status().await, refused);
    let fetch = "/envoy.api.v2.ClusterDiscoveryService/FetchClusters";
    let mut client = Client::connect(server.grpc).await;
    let mut fetch = client.open_with(fetch, &ask("", &[])).await;
    assert_eq!(fetch.status().await, refused);
    let (status, body) = post(server.http, "/v2/discovery:clusters", "{}", None).await;
    assert_eq!((status, &*body), (StatusCode::NOT_IMPLEMENTED, REASON));

    // gRFC A30: the transport may be v3 with resources of v2.
    let mut stream = Stream::open(server.grpc, &ads(0)).await;
    stream.send(&ask(
        "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        &[],
    ));
    assert_eq!(stream.sotw_acked().await.resources.len(), 2);
    stream.send(&ask(V2_LDS, &[]));
    assert_eq!(stream.status().await, refused);
    let body = format!("{{\"typeUrl\": \"{V2_CDS}\"}}");
    let (status, body) = post(server.http, "/v3/discovery:clusters", &body, None).await;
    assert_eq!((status, &*body), (StatusCode::NOT_IMPLEMENTED, REASON));
    server
        .counts("oxds_denied_total{reason=\"api_version\"} 6")
        .await;
}
