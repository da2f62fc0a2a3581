//! A control plane that is asked about its clients: by CSDS, which any may serve, or for the status page of ours.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ClientStatusRequest};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service as _;

use crate::exit::Failure;

/// To connect, and for each answer: enough for a hundred thousand resources.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest answer: a million resources or so.
pub(super) const MAX_ANSWER: usize = 256 << 20;

/// Which control plane is asked.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Address {
    /// The control plane: what `oxds serve` printed after `grpc`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:18000")]
    pub(crate) server: String,
}

/// A control plane, or another process that serves CSDS.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlane(Channel);

impl ControlPlane {
    /// Connects to `HOST:PORT`.
    pub(crate) async fn connect(address: &str) -> Result<Self, Failure> {
        connect(address, Some(PATIENCE)).await.map(Self)
    }

    /// What CSDS says of every client as it is now.
    pub(crate) async fn client_status(
        &self,
        exclude_resource_contents: bool,
    ) -> Result<Vec<ClientConfig>, Status> {
        let client = ClientStatusDiscoveryServiceClient::new(self.0.clone());
        let request = ClientStatusRequest {
            exclude_resource_contents,
            ..ClientStatusRequest::default()
        };
        let answer = client
            .max_decoding_message_size(MAX_ANSWER)
            .fetch_client_status(request)
            .await?;
        Ok(answer.into_inner().config)
    }

    /// The status page; `None` if it is a control plane that has none.
    pub(crate) async fn status_page(&self) -> Option<Bytes> {
        let mut channel = self.0.clone();
        let request = Request::get("/status.json").body(Body::empty()).ok()?;
        poll_fn(|cx| channel.poll_ready(cx)).await.ok()?;
        let response = channel.call(request).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER);
        Some(body.collect().await.ok()?.to_bytes())
    }
}

/// Connects to `HOST:PORT`. Each call has the time of `patience`, or any.
pub(super) async fn connect(address: &str, patience: Option<Duration>) -> Result<Channel, Failure> {
    let mut endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| Failure::usage(format_args!("{address}: {error}")))?
        .connect_timeout(PATIENCE);
    if let Some(patience) = patience {
        endpoint = endpoint.timeout(patience);
    }
    endpoint.connect().await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let cause = cause.unwrap_or_else(|| error.to_string());
        Failure::negative(format_args!("cannot connect to {address}: {cause}"))
            .hint("it is the address that `oxds serve` printed after `grpc`")
    })
}

/// An answer that is none.
pub(crate) fn refused(status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::negative(format_args!("the server answered {code:?}: {message}"))
}
