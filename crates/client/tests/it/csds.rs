//! CSDS of a process (gRFC A40), called over a socket as `grpcdebug` does.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ClientStatusRequest};
use envoy_types::pb::envoy::r#type::matcher::v3::NodeMatcher;
use oxds_client::admin::Csds;
use oxds_client::{Bootstrap, ClientPool, Options, WatchErrorReason};
use oxds_core::resource::{Assignment, Cluster};
use oxds_testkit::ControlPlane;
use oxds_testkit::resources::{cluster, static_cluster};
use oxds_types::ResourceType;
use oxds_types::discovery::{DiscoveryResponse, ParametrizedName, ResourceError, Status};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{StreamExt, iter};
use tonic::Code;
use tonic::transport::{Channel, Server};

use crate::scripted::{acknowledged, ambient, error, pool, value};

type Asking = ClientStatusDiscoveryServiceClient<Channel>;

pub(crate) async fn csds(pool: &ClientPool) -> Asking {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let server = Server::builder().add_service(Csds::new(pool).into_service());
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(socket)));
    let endpoint = format!("http://{address}");
    ClientStatusDiscoveryServiceClient::connect(endpoint)
        .await
        .unwrap()
}

pub(crate) async fn fetch(csds: &mut Asking) -> Vec<ClientConfig> {
    let request = ClientStatusRequest::default();
    let response = csds.fetch_client_status(request).await.unwrap();
    response.into_inner().config
}

pub(crate) fn entry<'a>(config: &'a ClientConfig, name: &str) -> &'a GenericXdsConfig {
    let mut entries = config.generic_xds_configs.iter();
    entries.find(|entry| entry.name == name).unwrap()
}

/// given a service without clients / then its response is empty; given two clients / then each is listed under its
/// target, with its node.
#[tokio::test]
async fn c121_c122_every_client_is_listed_under_its_target() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let mut csds = csds(&pool).await;
    assert_eq!(fetch(&mut csds).await, []);

    let (_one, _two) = (pool.client("xds:///b"), pool.client("xds:///a"));
    let configs = fetch(&mut csds).await;
    let scopes: Vec<&str> = configs
        .iter()
        .map(|config| config.client_scope.as_str())
        .collect();
    assert_eq!(scopes, ["xds:///a", "xds:///b"]);
    assert_eq!(configs[0].node.as_ref().unwrap().id, "scripted");
}

/// given a stream of requests / then each gets one response and the stream stays open; given a node matcher / then the
/// request fails.
#[tokio::test]
async fn c122_one_response_per_request_and_matchers_fail() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let mut csds = csds(&pool).await;
    let (ask, asked) = tokio::sync::mpsc::unbounded_channel();
    let requests = tokio_stream::wrappers::UnboundedReceiverStream::new(asked);
    ask.send(ClientStatusRequest::default()).unwrap();
    let answers = csds.stream_client_status(requests).await.unwrap();
    let mut answers = answers.into_inner();
    assert_eq!(answers.next().await.unwrap().unwrap().config.len(), 0);
    let _client = pool.client("xds:///a");
    ask.send(ClientStatusRequest::default()).unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap().config.len(), 1);

    let matching = ClientStatusRequest {
        node_matchers: vec![NodeMatcher::default()],
        ..ClientStatusRequest::default()
    };
    let refused = csds.fetch_client_status(matching.clone()).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let refused = csds.stream_client_status(iter([matching])).await.unwrap();
    let status = refused.into_inner().next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

/// given a cluster with an unknown field, a requested one and a missing one / then the first is shown byte for byte
/// with version and time, the others by their state only.
#[tokio::test]
async fn c123_c124_c127_resource_is_shown_byte_for_byte() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let client = pool.client("xds:///a");
    let mut sent = cluster("c", "e");
    let mut bytes = sent.value.to_vec();
    // No cluster has field 9999.
    prost::encoding::uint64::encode(9999, &7, &mut bytes);
    sent.value = bytes.into();
    let (mut stream, _watch) = acknowledged(&server, &client, sent.clone()).await;
    let _open = client.watch::<Assignment>("open");
    let mut gone = client.watch::<Cluster>("gone");
    let both = vec![sent.clone(), cluster("gone", "e")];
    stream.respond(&ResourceType::CLUSTER, "2", both);
    value(&mut gone).await;
    stream.respond(&ResourceType::CLUSTER, "3", vec![sent.clone()]);
    error(&mut gone, WatchErrorReason::DoesNotExist).await;

    let mut csds = csds(&pool).await;
    let config = &fetch(&mut csds).await[0];
    let shown = entry(config, "c");
    assert_eq!(shown.version_info, "3");
    assert_eq!(shown.type_url, ResourceType::CLUSTER.type_url());
    assert_eq!(shown.client_status(), ClientResourceStatus::Acked);
    let contents = shown.xds_config.as_ref().unwrap();
    assert_eq!(contents.value, sent.value);
    let updated = shown.last_updated.as_ref().unwrap();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let age = now - Duration::from_secs(u64::try_from(updated.seconds).unwrap());
    assert!(age < Duration::from_secs(60), "{age:?}");

    for (name, status) in [
        ("open", ClientResourceStatus::Requested),
        ("gone", ClientResourceStatus::DoesNotExist),
    ] {
        let shown = entry(config, name);
        assert_eq!(shown.client_status(), status);
        assert!(shown.xds_config.is_none() && shown.version_info.is_empty());
    }
}

/// given a server whose silence is a transient error, and clusters in every state / then each state has its own enum
/// value, and REQUESTED is told apart from TIMEOUT.
#[tokio::test]
async fn c113_every_state_is_shown() {
    let server = ControlPlane::start().await.unwrap();
    let features = r#""resource_timer_is_transient_error""#;
    let entry_of_server = crate::authorities::entry(&server, features);
    let bootstrap = Bootstrap::from_json(&format!(r#"{{"xds_servers":[{entry_of_server}]}}"#));
    let options = Options::default()
        .with_data_error_handling(true)
        .with_resource_timeout(Duration::from_secs(1));
    let pool = ClientPool::with_options(bootstrap.unwrap(), options);
    let (client, mut csds) = (pool.client("xds:///a"), csds(&pool).await);
    let [mut good, mut bad, mut gone, mut refused, mut late] =
        ["good", "bad", "gone", "refused", "late"].map(|name| client.watch::<Cluster>(name));

    let mut stream = server.next_stream().await.unwrap();
    let both = vec![cluster("good", "e"), cluster("gone", "e")];
    stream.respond(&ResourceType::CLUSTER, "1", both);
    value(&mut good).await;
    value(&mut gone).await;
    let not_allowed = ResourceError {
        resource_name: Some(ParametrizedName {
            name: "refused".to_owned(),
            ..ParametrizedName::default()
        }),
        error_detail: Some(Status {
            code: Code::PermissionDenied.into(),
            message: "not yours".to_owned(),
            ..Status::default()
        }),
    };
    stream.send(DiscoveryResponse {
        version_info: "2".to_owned(),
        resources: vec![cluster("good", "e"), static_cluster("bad")],
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        nonce: "nonce-2".to_owned(),
        resource_errors: vec![not_allowed],
        ..DiscoveryResponse::default()
    });
    error(&mut bad, WatchErrorReason::Invalid).await;
    error(&mut refused, WatchErrorReason::Denied).await;
    ambient(&mut gone, WatchErrorReason::DoesNotExist).await;
    error(&mut late, WatchErrorReason::Unreachable).await;
    let _asked = client.watch::<Cluster>("asked");

    let config = &fetch(&mut csds).await[0];
    for (name, status) in [
        ("asked", ClientResourceStatus::Requested),
        ("gone", ClientResourceStatus::DoesNotExist),
        ("good", ClientResourceStatus::Acked),
        ("bad", ClientResourceStatus::Nacked),
        ("refused", ClientResourceStatus::ReceivedError),
        ("late", ClientResourceStatus::Timeout),
    ] {
        assert_eq!(entry(config, name).client_status(), status, "{name}");
    }
    let failure = entry(config, "refused").error_state.as_ref().unwrap();
    assert!(failure.details.contains("not yours"), "{failure:?}");
}

/// given a cached value / when an update of it is rejected / then CSDS shows the last good value with its version, and
/// the rejected version with the reason; another resource of that response is ACKED.
#[tokio::test]
async fn c125_rejected_update_is_shown_beside_the_cached_value() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let client = pool.client("xds:///a");
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    let mut other = client.watch::<Cluster>("other");
    let resources = vec![static_cluster("c"), cluster("other", "e")];
    stream.respond(&ResourceType::CLUSTER, "2", resources);
    ambient(&mut watch, WatchErrorReason::Invalid).await;
    value(&mut other).await;

    let mut csds = csds(&pool).await;
    let config = &fetch(&mut csds).await[0];
    let shown = entry(config, "c");
    assert_eq!(shown.client_status(), ClientResourceStatus::Nacked);
    assert_eq!(shown.version_info, "1");
    assert!(shown.xds_config.is_some());
    let failure = shown.error_state.as_ref().unwrap();
    assert_eq!(failure.version_info, "2");
    assert!(
        failure.details.contains("is invalid"),
        "{}",
        failure.details
    );
    assert!(failure.last_update_attempt.is_some());
    let other = entry(config, "other");
    assert_eq!(other.client_status(), ClientResourceStatus::Acked);
    assert!(other.version_info == "2" && other.error_state.is_none());
}

/// given a request without contents / then the response has everything but the contents.
#[tokio::test]
async fn c126_contents_are_left_out_on_request() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let client = pool.client("xds:///a");
    let (_stream, _watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    let request = ClientStatusRequest {
        exclude_resource_contents: true,
        ..ClientStatusRequest::default()
    };
    let response = csds(&pool).await.fetch_client_status(request).await;
    let config = &response.unwrap().into_inner().config[0];
    let shown = entry(config, "c");
    assert!(shown.xds_config.is_none());
    assert_eq!(shown.version_info, "1");
}

/// given a client that has fallen back / then CSDS shows the data of the server in use.
#[tokio::test]
async fn c167_during_fallback_the_server_in_use_is_shown() {
    let first = ControlPlane::start().await.unwrap();
    let second = ControlPlane::start().await.unwrap();
    first.kill();
    let entries = [&first, &second].map(|server| crate::authorities::entry(server, ""));
    let json = format!(r#"{{"xds_servers":[{}]}}"#, entries.join(","));
    let pool = ClientPool::new(Bootstrap::from_json(&json).unwrap());
    let mut watch = pool.client("xds:///a").watch::<Cluster>("c");
    let mut stream = second.next_stream().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "second-1", vec![cluster("c", "e")]);
    value(&mut watch).await;
    let config = &fetch(&mut csds(&pool).await).await[0];
    assert_eq!(entry(config, "c").version_info, "second-1");
}
