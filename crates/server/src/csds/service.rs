//! The gRPC service: each request has one response.

use std::pin::Pin;
use std::sync::Arc;

use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryService;
use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tonic::{Request, Response, Status, Streaming};

use super::matcher::NodeMatcher;
use super::state::{View, clients};
use crate::ads::{Context, Peer};

/// `envoy.service.status.v3.ClientStatusDiscoveryService`.
#[derive(Clone, Debug)]
pub(crate) struct StatusService(pub(crate) Arc<Context>);

impl StatusService {
    fn answer(&self, request: &ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
        let matchers = request.node_matchers.iter().map(NodeMatcher::new);
        let view = View {
            matchers: matchers
                .collect::<Result<_, _>>()
                .map_err(|invalid| Status::invalid_argument(invalid.to_string()))?,
            with_contents: !request.exclude_resource_contents,
        };
        Ok(ClientStatusResponse {
            config: clients(&self.0, &view),
        })
    }

    /// Whether the client may know what others have (S-78).
    fn may_ask<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let peer = Peer::of(request.extensions())?;
        let may = self.0.may_inspect(&peer);
        may.map_err(|denied| Status::permission_denied(denied.to_string()))
    }

    /// The answer to the next request; `None` when there is none any more, or the server shuts down.
    async fn next(
        &self,
        requests: &mut Streaming<ClientStatusRequest>,
    ) -> Option<Result<ClientStatusResponse, Status>> {
        tokio::select! {
            request = requests.message() => match request {
                Ok(request) => Some(self.answer(&request?)),
                Err(status) => Some(Err(status)),
            },
            () = self.0.closing.cancelled() => None,
        }
    }
}

#[tonic::async_trait]
impl ClientStatusDiscoveryService for StatusService {
    type StreamClientStatusStream =
        Pin<Box<dyn Stream<Item = Result<ClientStatusResponse, Status>> + Send>>;

    async fn stream_client_status(
        &self,
        request: Request<Streaming<ClientStatusRequest>>,
    ) -> Result<Response<Self::StreamClientStatusStream>, Status> {
        self.may_ask(&request)?;
        let state = (self.clone(), request.into_inner());
        let responses = unfold(state, |(service, mut requests)| async move {
            let response = service.next(&mut requests).await?;
            Some((response, (service, requests)))
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        self.may_ask(&request)?;
        self.answer(request.get_ref()).map(Response::new)
    }
}
