//! The gRPC service of CSDS: each request has one response.

use std::pin::Pin;
use std::sync::Arc;

use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_server::ClientStatusDiscoveryService;
use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::{Instant, sleep_until};
use tonic::{Request, Response, Status, Streaming};

use super::matcher::ClientMatcher;
use super::state::{Selection, clients};
use crate::discovery::{CallError, Context};
use crate::server::Peer;

/// `envoy.service.status.v3.ClientStatusDiscoveryService`.
#[derive(Clone, Debug)]
pub(crate) struct StatusService(pub(crate) Arc<Context>);

impl StatusService {
    fn respond(&self, request: &ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
        let matchers = request.node_matchers.iter().map(ClientMatcher::new);
        let selection = Selection {
            matchers: matchers
                .collect::<Result<_, _>>()
                .map_err(|invalid| Status::invalid_argument(invalid.to_string()))?,
            with_contents: !request.exclude_resource_contents,
        };
        Ok(ClientStatusResponse {
            config: clients(&self.0, &selection),
        })
    }

    /// Checks that the client may see the state of other clients (S-78).
    fn may_ask(&self, peer: &Peer) -> Result<(), Status> {
        let allowed = self.0.may_inspect(peer);
        allowed.map_err(|denied| Status::permission_denied(denied.to_string()))
    }
}

/// The state of one `StreamClientStatus` call.
struct StatusStream {
    service: StatusService,
    peer: Peer,
    requests: Streaming<ClientStatusRequest>,
    /// The time by which the first request must arrive. `None` after it.
    deadline: Option<Instant>,
}

impl StatusStream {
    /// Returns the response to the next request, or `None` when the client has no more or the server shuts down.
    async fn next(&mut self) -> Option<Result<ClientStatusResponse, Status>> {
        let context = &self.service.0;
        let deadline = self.deadline.take();
        let request = tokio::select! {
            request = self.requests.message() => request.transpose()?,
            () = context.server.closing.cancelled() => return None,
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Err(CallError::NoRequest.status(&context.server.metrics))
            }
        };
        // Checked for each request: authorization rules may change meanwhile.
        let allowed =
            request.and_then(|request| self.service.may_ask(&self.peer).map(|()| request));
        Some(allowed.and_then(|request| self.service.respond(&request)))
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
        let peer = Peer::of(request.extensions())?;
        self.may_ask(&peer)?;
        let stream = StatusStream {
            service: self.clone(),
            peer,
            requests: request.into_inner(),
            deadline: Some(Instant::now() + self.0.server.limits.first_request),
        };
        let responses = unfold(stream, |mut stream| async move {
            let response = stream.next().await?;
            Some((response, stream))
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        self.may_ask(&Peer::of(request.extensions())?)?;
        self.respond(request.get_ref()).map(Response::new)
    }
}
