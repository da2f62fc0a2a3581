//! Connection to a control plane, for the state of its clients: over CSDS, which any server may have, or
//! from the status page of `oxds serve`.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ClientStatusRequest};
use http::{HeaderValue, Request, StatusCode, Uri, header, request};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::rt::TokioIo;
use oxds_client::bootstrap::Server;
use oxds_client::transport::{self, DialError, Http, Socket};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use crate::exit::Failure;

/// Time to connect, and time for each response: enough for a hundred thousand resources.
const TIMEOUT: Duration = Duration::from_secs(20);
const STATUS: &str = "/status.json";
/// The status without clients and loads: its cost does not depend on their number.
const SUMMARY: &str = "/status.json?limit=0";
const RUNTIME: &str = "/runtime";
/// Largest response in bytes: about a million resources.
pub(super) const MAX_RESPONSE: usize = 256 << 20;

/// Connection to a control plane, or to another process that serves CSDS.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlane(Channel);

impl ControlPlane {
    /// Connects with the server's credentials.
    pub(crate) async fn connect(server: &Server) -> Result<Self, Failure> {
        connect(server).await.map(Self)
    }

    /// Fetches the current state of every client over CSDS.
    pub(crate) async fn client_status(
        &self,
        exclude_resource_contents: bool,
    ) -> Result<Vec<ClientConfig>, Status> {
        let client = ClientStatusDiscoveryServiceClient::new(self.0.clone());
        let request = ClientStatusRequest {
            exclude_resource_contents,
            ..ClientStatusRequest::default()
        };
        let response = client
            .max_decoding_message_size(MAX_RESPONSE)
            .fetch_client_status(request)
            .await?;
        Ok(response.into_inner().config)
    }

    /// Fetches the status page. Returns `None` if the control plane has none.
    pub(crate) async fn status_page(&self) -> Option<StatusPage> {
        self.fetch_status(Request::get(STATUS)).await
    }

    /// Fetches the status page without its lists of clients and loads. Returns `None` if the control plane has none.
    pub(crate) async fn status_summary(&self) -> Option<StatusPage> {
        self.fetch_status(Request::get(SUMMARY)).await
    }

    /// Fetches the page of the status that another one names as its next. Returns `None` if the control plane has none.
    pub(crate) async fn status_page_at(&self, next: &str) -> Option<StatusPage> {
        // Only pages of the status: the path comes from the control plane.
        let is_status = next.starts_with(STATUS);
        if is_status {
            self.fetch_status(Request::get(next)).await
        } else {
            None
        }
    }

    /// Fetches the status page without its lists when it differs from `known`. Returns `None` if it did not change
    /// during `wait` (in whole seconds), or if the page is gone.
    pub(crate) async fn next_status_summary(
        &self,
        known: &StatusPage,
        wait: Duration,
    ) -> Option<StatusPage> {
        let request = Request::get(SUMMARY)
            .header(header::IF_NONE_MATCH, known.tag.as_ref()?)
            .header("prefer", format!("wait={}", wait.as_secs()));
        self.fetch_status(request).await
    }

    /// Returns the path of the runtime keys that begin with `prefix`.
    pub(crate) fn runtime_path(prefix: &str) -> String {
        let bytes = prefix.bytes().map(|byte| format!("%{byte:02X}"));
        format!("{RUNTIME}?prefix={}", bytes.collect::<String>())
    }

    /// Fetches a page of the runtime. Returns `None` if the control plane has none, or does not show it to this client.
    pub(crate) async fn runtime_page(&self, path: &str) -> Option<Bytes> {
        // Only pages of the runtime: the path may come from the control plane.
        let is_runtime = path.starts_with(RUNTIME);
        let page = if is_runtime {
            self.fetch_status(Request::get(path)).await
        } else {
            None
        };
        page.map(|page| page.body)
    }

    /// Fetches a page of `oxds serve`.
    ///
    /// # Errors
    /// No response, or a status other than 200, as text.
    pub(super) async fn page(&self, path: &str) -> Result<Bytes, String> {
        let mut channel = self.0.clone();
        let request = Request::get(path)
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        poll_fn(|cx| channel.poll_ready(cx))
            .await
            .map_err(|error| error.to_string())?;
        let response = channel
            .call(request)
            .await
            .map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(response.status().to_string());
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE)
            .collect()
            .await;
        Ok(body.map_err(|error| error.to_string())?.to_bytes())
    }

    async fn fetch_status(&self, request: request::Builder) -> Option<StatusPage> {
        let mut channel = self.0.clone();
        let request = request.body(Body::empty()).ok()?;
        poll_fn(|cx| channel.poll_ready(cx)).await.ok()?;
        let response = channel.call(request).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let tag = response.headers().get(header::ETAG).cloned();
        let body = Limited::new(response.into_body(), MAX_RESPONSE);
        let body = body.collect().await.ok()?.to_bytes();
        Some(StatusPage { tag, body })
    }
}

/// The status page of `oxds serve`: its form is in `docs/status-json.md`.
#[derive(Debug, Clone)]
pub(crate) struct StatusPage {
    /// The `ETag` of this content.
    tag: Option<HeaderValue>,
    /// The page as JSON.
    pub(crate) body: Bytes,
}

async fn connect(server: &Server) -> Result<Channel, Failure> {
    let authority = server.address.authority();
    let usage = |error| Failure::usage(format_args!("{authority}: {error}"));
    let mut endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(usage)?
        .connect_timeout(TIMEOUT)
        .timeout(TIMEOUT);
    if server.credentials.is_private() {
        // The connector below does TLS, and tonic rejects an https URI without its own TLS. So the URI
        // is http, and only the origin that the server sees is https.
        let origin = format!("https://{authority}").parse();
        endpoint = endpoint
            .origin(origin.map_err(|error| Failure::usage(format_args!("{authority}: {error}")))?);
    }
    let connected = endpoint
        .connect_with_connector(Connector(server.clone()))
        .await;
    connected.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let cause = cause.unwrap_or_else(|| error.to_string());
        unreachable(authority, &cause)
    })
}

/// Returns the failure for a server that cannot be connected to.
pub(super) fn unreachable(address: &str, cause: &str) -> Failure {
    Failure::negative(format_args!("cannot connect to {address}: {cause}"))
        .hint("use the address that `oxds serve` printed after `grpc`")
}

/// Connects to its server and ignores the URI of the request.
struct Connector(Server);

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let server = self.0.clone();
        Box::pin(async move {
            let socket = transport::open(&server.address, &*server.credentials, Http::Two).await?;
            Ok(TokioIo::new(socket))
        })
    }
}

/// Returns the failure for an error status of the server.
pub(crate) fn rpc_failed(status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::negative(format_args!(
        "the server responded with {code:?}: {message}"
    ))
}
