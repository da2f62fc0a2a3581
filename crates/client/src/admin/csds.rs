//! The client status discovery service (CSDS): the cached resources of a process's clients, for debugging (gRFC A40).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use envoy_types::pb::envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::{
    ClientStatusDiscoveryService, ClientStatusDiscoveryServiceServer,
};
use envoy_types::pb::envoy::service::status::v3::{
    ClientConfig, ClientStatusRequest, ClientStatusResponse,
};
use envoy_types::pb::google::protobuf::{Any, Timestamp};
use oxds_core::ads::CacheState;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::driver::ResourceStatus;
use crate::handle::ClientPool;

/// CSDS over the clients of a pool. It may be created before the pool has clients.
///
/// ```no_run
/// # fn example(pool: &oxds_client::ClientPool) {
/// // With tonic: `Server::builder().add_service(csds)`.
/// let csds = oxds_client::admin::Csds::new(pool).into_service();
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Csds {
    pool: ClientPool,
}

impl Csds {
    /// Creates the service. It reports the clients that the pool has at the time of each request.
    #[must_use]
    pub fn new(pool: &ClientPool) -> Self {
        Self { pool: pool.clone() }
    }

    /// Returns the service for a tonic server.
    #[must_use]
    pub fn into_service(self) -> ClientStatusDiscoveryServiceServer<Self> {
        ClientStatusDiscoveryServiceServer::new(self)
    }

    async fn response(
        &self,
        request: &ClientStatusRequest,
    ) -> Result<ClientStatusResponse, Status> {
        // csds.proto: node matchers select clients of a management server; a client has only its own node (C-122).
        if !request.node_matchers.is_empty() {
            return Err(Status::invalid_argument("node_matchers must be empty"));
        }
        let mut config = Vec::new();
        for (target, client) in self.pool.clients() {
            // A client whose runtime has stopped has no cache any more.
            let Some(resources) = client.shared().dump().await else {
                continue;
            };
            let entry = |resource| entry(resource, !request.exclude_resource_contents);
            config.push(ClientConfig {
                node: Some(client.bootstrap().node().clone()),
                generic_xds_configs: resources.iter().map(entry).collect(),
                client_scope: target,
                ..ClientConfig::default()
            });
        }
        Ok(ClientStatusResponse { config })
    }
}

#[tonic::async_trait]
impl ClientStatusDiscoveryService for Csds {
    type StreamClientStatusStream =
        Pin<Box<dyn Stream<Item = Result<ClientStatusResponse, Status>> + Send>>;

    async fn stream_client_status(
        &self,
        requests: Request<Streaming<ClientStatusRequest>>,
    ) -> Result<Response<Self::StreamClientStatusStream>, Status> {
        let service = Arc::new(self.clone());
        // gRFC A40: each request on the stream gets one response, and the stream stays open (C-122).
        let responses = requests.into_inner().then(move |request| {
            let service = Arc::clone(&service);
            async move { service.response(&request?).await }
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        self.response(request.get_ref()).await.map(Response::new)
    }
}

fn entry(resource: &ResourceStatus, with_contents: bool) -> GenericXdsConfig {
    let mut entry = GenericXdsConfig {
        // gRFC A40: the type URL as it was received (C-61).
        type_url: resource.type_url.clone(),
        name: resource.name.as_ref().to_owned(),
        client_status: status(resource.state).into(),
        // `grpcdebug` prints the epoch as an empty time, but fails if the field is absent.
        last_updated: Some(Timestamp::default()),
        ..GenericXdsConfig::default()
    };
    if let Some(cached) = &resource.cached {
        entry.version_info = cached.version.to_string();
        entry.last_updated = Some(timestamp(resource.wall_clock(cached.updated)));
        // The bytes are unchanged, with unknown fields (C-124) and the type URL of the response (C-61).
        entry.xds_config = with_contents.then(|| Any {
            type_url: entry.type_url.clone(),
            value: cached.resource.value().to_vec(),
        });
    }
    if let Some(attempt) = &resource.attempt {
        let details = resource.error.as_ref().map(ToString::to_string);
        entry.error_state = Some(UpdateFailureState {
            details: details.unwrap_or_default(),
            version_info: attempt.version.clone(),
            last_update_attempt: Some(timestamp(resource.wall_clock(attempt.at))),
            ..UpdateFailureState::default()
        });
    }
    entry
}

fn status(state: CacheState) -> ClientResourceStatus {
    match state {
        CacheState::Requested => ClientResourceStatus::Requested,
        CacheState::DoesNotExist => ClientResourceStatus::DoesNotExist,
        CacheState::Acked => ClientResourceStatus::Acked,
        CacheState::Nacked => ClientResourceStatus::Nacked,
        CacheState::ReceivedError => ClientResourceStatus::ReceivedError,
        CacheState::Timeout => ClientResourceStatus::Timeout,
    }
}

/// Converts a time. Times before 1970 become 1970.
fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since: Duration = since.unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}
