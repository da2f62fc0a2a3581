//! Control planes of both API versions (gRFC A30), over real sockets.

use oxds_client::bootstrap::TransportPolicy;
use oxds_client::{Bootstrap, ClientPool, Options, Protocol, WatchErrorReason};
use oxds_core::resource::Cluster;
use oxds_testkit::resources::{cluster, static_cluster};
use oxds_testkit::{AdsStream, ControlPlane};
use oxds_types::discovery::{Any, DiscoveryRequest, DiscoveryResponse, Node, VersionedTypeUrl};
use oxds_types::identity::{SemVer, VERSIONED_TYPE_URLS};
use oxds_types::{ApiVersion, ResourceType};
use prost::Message;

use crate::csds::{csds, entry as shown, fetch};
use crate::scripted::{ambient, value};

const V2_CLUSTER: &str = "type.googleapis.com/envoy.api.v2.Cluster";
const V2_ADS: &str = "/envoy.service.discovery.v2.AggregatedDiscoveryService";
const V3_ADS: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService";

async fn start() -> ControlPlane {
    ControlPlane::start().await.unwrap()
}

/// A bootstrap with these servers, which declare v3 or do not, under one policy.
fn bootstrap(servers: &[(&ControlPlane, bool)], policy: TransportPolicy) -> Bootstrap {
    let entry = |(server, v3): &(&ControlPlane, bool)| {
        let features = if *v3 { r#""xds_v3""# } else { r#""xds_v4""# };
        crate::authorities::entry(server, features)
    };
    let entries: Vec<String> = servers.iter().map(entry).collect();
    let json = format!(
        r#"{{"xds_servers":[{}],"node":{{"id":"scripted"}}}}"#,
        entries.join(",")
    );
    Bootstrap::from_json(&json)
        .unwrap()
        .with_transport(|_| policy)
}

/// Returns the next stream of a client, and its first request.
async fn opened(
    knows_v3: bool,
    policy: TransportPolicy,
    protocol: Protocol,
) -> (AdsStream, DiscoveryRequest) {
    let server = start().await;
    let options = Options::default().with_protocol(protocol);
    let bootstrap = bootstrap(&[(&server, knows_v3)], policy);
    let client = ClientPool::with_options(bootstrap, options).client("test");
    let _watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    let request = match protocol {
        Protocol::Sotw => stream.request().await.unwrap(),
        Protocol::Delta => DiscoveryRequest::default(),
    };
    (stream, request)
}

/// given a server that does not declare v3 / when the policy is v3 only / then the client uses v3.
#[tokio::test]
async fn c49_c52_v3_is_used_by_default() {
    for knows_v3 in [true, false] {
        let (stream, request) = opened(knows_v3, TransportPolicy::default(), Protocol::Sotw).await;
        assert_eq!(stream.path(), format!("{V3_ADS}/StreamAggregatedResources"));
        assert_eq!(request.type_url, ResourceType::CLUSTER.type_url());
    }
}

/// given servers that declare v3 and that do not / when the policy is the highest shared version / then the client uses
/// v3 and v2.
#[tokio::test]
async fn c50_c52_c53_highest_shared_version_is_used() {
    let auto = TransportPolicy::Auto;
    let (stream, _) = opened(true, auto, Protocol::Sotw).await;
    assert_eq!(stream.path(), format!("{V3_ADS}/StreamAggregatedResources"));
    let (stream, request) = opened(false, auto, Protocol::Sotw).await;
    assert_eq!(stream.path(), format!("{V2_ADS}/StreamAggregatedResources"));
    assert_eq!(request.type_url, V2_CLUSTER);
    // Delta is used only by clients that ask for it, in either version.
    let (stream, _) = opened(false, auto, Protocol::Delta).await;
    assert_eq!(stream.path(), format!("{V2_ADS}/DeltaAggregatedResources"));
}

/// Fields 2 (node) and, within it, 5 (build version, before v3) of a request, as bytes.
#[derive(Clone, PartialEq, prost::Message)]
struct OldRequest {
    #[prost(message, optional, tag = "2")]
    node: Option<OldNode>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OldNode {
    #[prost(string, optional, tag = "5")]
    build_version: Option<String>,
    #[prost(string, tag = "6")]
    user_agent_name: String,
    #[prost(string, tag = "7")]
    user_agent_version: String,
}

#[tokio::test]
async fn c54_only_v2_nodes_carry_the_build_version() {
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        (TransportPolicy::V2Only, Some(format!("oxds {version}"))),
        (TransportPolicy::V3Only, None),
    ];
    for (policy, build_version) in expected {
        let (stream, request) = opened(true, policy, Protocol::Sotw).await;
        assert_eq!(request.node.unwrap().id, "scripted");
        let sent = OldRequest::decode(stream.request_bytes().clone()).unwrap();
        let expected = OldNode {
            build_version,
            user_agent_name: "oxds".to_owned(),
            user_agent_version: version.to_owned(),
        };
        assert_eq!(sent.node, Some(expected));
    }
}

/// Sends clusters under the type URLs of a version.
fn respond_in(api: ApiVersion, stream: &mut AdsStream, version: &str, clusters: Vec<Any>) {
    let type_url = ResourceType::CLUSTER.type_url_in(api).unwrap();
    let named = clusters.into_iter().map(|any| Any {
        type_url: type_url.to_owned(),
        ..any
    });
    stream.send(DiscoveryResponse {
        version_info: version.to_owned(),
        resources: named.collect(),
        type_url: type_url.to_owned(),
        nonce: format!("nonce-{version}"),
        ..DiscoveryResponse::default()
    });
}

/// given a v3 client / when it gets a v2 response, and then an invalid one / then it has the resource, and both
/// its ACK and its NACK use v3.
#[tokio::test]
async fn c55_c56_ack_and_nack_use_the_version_of_the_stream() {
    let server = start().await;
    let pool = ClientPool::new(bootstrap(&[(&server, true)], TransportPolicy::V3Only));
    let client = pool.client("test");
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    respond_in(ApiVersion::V2, &mut stream, "1", vec![cluster("c", "e")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "e");
    let ack = stream.request().await.unwrap();
    respond_in(ApiVersion::V2, &mut stream, "2", vec![static_cluster("c")]);
    ambient(&mut watch, WatchErrorReason::Invalid).await;
    let nack = stream.request().await.unwrap();
    let said = |request: &DiscoveryRequest| {
        let DiscoveryRequest {
            type_url,
            version_info,
            response_nonce,
            ..
        } = request.clone();
        (type_url, version_info, response_nonce)
    };
    let url = ResourceType::CLUSTER.type_url().to_owned();
    assert_eq!(said(&ack), (url.clone(), "1".into(), "nonce-1".into()));
    assert_eq!(said(&nack), (url, "1".into(), "nonce-2".into()));
    assert!(nack.error_detail.is_some());
}

/// given two servers, only the second of which declares v3 / when the first dies and returns / then the client uses
/// each server's own version, and the watcher sees values only.
#[tokio::test]
async fn c51_fallback_uses_each_servers_own_version() {
    let (old, new) = (start().await, start().await);
    old.kill();
    let bootstrap = bootstrap(&[(&old, false), (&new, true)], TransportPolicy::Auto);
    let client = ClientPool::new(bootstrap).client("test");
    let mut watch = client.watch::<Cluster>("c");

    let mut stream = new.next_stream().await.unwrap();
    assert!(stream.path().starts_with(V3_ADS));
    stream.request().await.unwrap();
    respond_in(ApiVersion::V3, &mut stream, "1", vec![cluster("c", "new")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");

    old.restart().await.unwrap();
    let mut stream = old.next_stream().await.unwrap();
    assert!(stream.path().starts_with(V2_ADS));
    let request = stream.request().await.unwrap();
    assert_eq!(
        (&*request.type_url, &*request.version_info),
        (V2_CLUSTER, "")
    );
    respond_in(ApiVersion::V2, &mut stream, "1", vec![cluster("c", "old")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "old");
    new.has_connections(0).await.unwrap();
}

/// given resources that came in v2 and in v3 / when CSDS is called / then each is shown under the type URL it came
/// with.
#[tokio::test]
async fn c61_csds_keeps_the_type_url_of_the_response() {
    let server = start().await;
    let pool = ClientPool::new(bootstrap(&[(&server, true)], TransportPolicy::V2Only));
    let client = pool.client("xds:///a");
    let (mut old, mut new) = (
        client.watch::<Cluster>("old"),
        client.watch::<Cluster>("new"),
    );
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    let v2 = Any {
        type_url: V2_CLUSTER.to_owned(),
        ..cluster("old", "")
    };
    let unusual = "example.com/envoy.config.cluster.v3.Cluster";
    let new_any = Any {
        type_url: unusual.to_owned(),
        ..cluster("new", "")
    };
    stream.respond(&ResourceType::CLUSTER, "1", vec![v2, new_any]);
    value(&mut old).await;
    value(&mut new).await;

    let config = &fetch(&mut csds(&pool).await).await[0];
    for (name, type_url) in [("old", V2_CLUSTER), ("new", unusual)] {
        let entry = shown(config, name);
        assert_eq!(entry.type_url, type_url);
        assert_eq!(entry.xds_config.as_ref().unwrap().type_url, type_url);
    }
}

/// Returns the first and the second request for clusters of a client with these versions.
async fn versioned_requests(
    protocol: Protocol,
    versions: &[(&str, SemVer)],
) -> [(Vec<VersionedTypeUrl>, bool); 2] {
    let server = start().await;
    let versions = versions.iter();
    let options = Options::default()
        .with_protocol(protocol)
        .with_api_versions(
            versions
                .map(|(message, version)| ((*message).to_owned(), *version))
                .collect(),
        );
    let bootstrap = bootstrap(&[(&server, true)], TransportPolicy::V3Only);
    let client = ClientPool::with_options(bootstrap, options).client("test");
    let _watch = client.watch::<Cluster>("c");
    let has_feature = |node: Option<Node>| {
        let features = node.into_iter().flat_map(|node| node.client_features);
        features
            .into_iter()
            .any(|feature| feature == VERSIONED_TYPE_URLS)
    };
    match protocol {
        Protocol::Sotw => {
            let mut stream = server.next_stream().await.unwrap();
            let first = stream.request().await.unwrap();
            stream.respond(&ResourceType::CLUSTER, "1", vec![static_cluster("c")]);
            let second = stream.request().await.unwrap();
            [first, second].map(|request| (request.versioned_type_urls, has_feature(request.node)))
        }
        Protocol::Delta => panic!("SotW only"),
    }
}

/// Given a client that accepts two majors of clusters, then its first request has both with their versions, later ones
/// and those of other clients have none. The field is number 1000 and the old field 4 stays.
#[tokio::test]
async fn v50_first_request_has_versioned_type_urls() {
    const V3: &str = "envoy.config.cluster.v3.Cluster";
    const V2: &str = "envoy.api.v2.Cluster";
    const ROUTE: &str = "envoy.config.route.v3.RouteConfiguration";
    let versions = [
        (V3, SemVer::new(3, 7, 0)),
        (V2, SemVer::new(2, 1, 0)),
        (ROUTE, SemVer::new(3, 1, 0)),
    ];
    let [first, second] = versioned_requests(Protocol::Sotw, &versions).await;
    let versioned = |message: &str, version: SemVer| VersionedTypeUrl {
        type_url: format!("type.googleapis.com/{message}"),
        most_recently_supported: Some(version.into()),
    };
    let expected = [
        versioned(V2, SemVer::new(2, 1, 0)),
        versioned(V3, SemVer::new(3, 7, 0)),
    ];
    assert_eq!((&first.0[..], first.1), (&expected[..], true));
    assert_eq!(second.0, []);
    let request = DiscoveryRequest {
        type_url: "t".to_owned(),
        versioned_type_urls: vec![VersionedTypeUrl::default()],
        ..DiscoveryRequest::default()
    };
    assert_eq!(request.encode_to_vec(), [0x22, 1, b't', 0xc2, 0x3e, 0]);
    let [first, _] = versioned_requests(Protocol::Sotw, &[]).await;
    assert_eq!(first, (vec![], false));
}
