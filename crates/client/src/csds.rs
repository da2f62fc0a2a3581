//! The client status discovery service: what a process's clients hold, for who debugs it (gRFC A40).

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

use crate::client::{ClientPool, Dumped};

/// The service over the clients of a pool. It may be registered before there is any.
///
/// ```no_run
/// # fn example(pool: &oxds_client::ClientPool) {
/// // With tonic: `Server::builder().add_service(csds)`.
/// let csds = oxds_client::Csds::new(pool).into_service();
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Csds {
    pool: ClientPool,
}

impl Csds {
    /// The clients of this pool, whenever they come and go.
    #[must_use]
    pub fn new(pool: &ClientPool) -> Self {
        Self { pool: pool.clone() }
    }

    /// As what a tonic server takes.
    #[must_use]
    pub fn into_service(self) -> ClientStatusDiscoveryServiceServer<Self> {
        ClientStatusDiscoveryServiceServer::new(self)
    }

    async fn answer(&self, request: &ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
        // A client is no management server that could choose among nodes (C-122).
        if !request.node_matchers.is_empty() {
            return Err(Status::invalid_argument("node_matchers must be empty"));
        }
        let mut config = Vec::new();
        for (target, client) in self.pool.clients() {
            // A client whose runtime is gone holds nothing any more.
            let Some(dumped) = client.dump().await else {
                continue;
            };
            let entry = |dumped| entry(dumped, !request.exclude_resource_contents);
            config.push(ClientConfig {
                node: Some(client.bootstrap().node().clone()),
                generic_xds_configs: dumped.iter().map(entry).collect(),
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
        let answers = requests.into_inner().then(move |request| {
            let service = Arc::clone(&service);
            async move { service.answer(&request?).await }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        self.answer(request.get_ref()).await.map(Response::new)
    }
}

fn entry(dumped: &Dumped, with_contents: bool) -> GenericXdsConfig {
    let resource_type = &dumped.resource_type;
    let mut entry = GenericXdsConfig {
        type_url: resource_type.type_url().to_owned(),
        name: dumped.name.as_ref().to_owned(),
        client_status: status(dumped.state).into(),
        // `grpcdebug` shows the epoch as nothing, and fails where there is no time at all.
        last_updated: Some(Timestamp::default()),
        ..GenericXdsConfig::default()
    };
    if let Some(held) = &dumped.held {
        entry.version_info = held.version.to_string();
        entry.last_updated = Some(timestamp(dumped.at(held.updated)));
        // The bytes that came, unknown fields included (C-124), under the type URL that they came with (C-61).
        let type_url = resource_type.type_url_on(held.api);
        entry.xds_config = with_contents.then(|| Any {
            type_url: type_url.to_owned(),
            value: held.resource.value().to_vec(),
        });
    }
    if let Some(attempt) = &dumped.attempt {
        let details = dumped.error.as_ref().map(ToString::to_string);
        entry.error_state = Some(UpdateFailureState {
            details: details.unwrap_or_default(),
            version_info: attempt.version.clone(),
            last_update_attempt: Some(timestamp(dumped.at(attempt.at))),
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

/// A clock before 1970 shows 1970.
fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since: Duration = since.unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}
