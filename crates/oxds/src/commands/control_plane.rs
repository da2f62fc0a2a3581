//! A control plane that is asked about its clients: by CSDS, which any may serve, or for the status page of ours.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::service::status::v3::client_status_discovery_service_client::ClientStatusDiscoveryServiceClient;
use envoy_types::pb::envoy::service::status::v3::{ClientConfig, ClientStatusRequest};
use http::{HeaderValue, Request, StatusCode, Uri, header, request};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::rt::TokioIo;
use oxds_client::Bootstrap;
use oxds_client::bootstrap::{Builder, Server};
use oxds_client::transport::{self, DialError, Http, Socket};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use super::bootstrap::check;
use super::secure::ClientSecurity;
use crate::exit::Failure;

/// To connect, and for each answer: enough for a hundred thousand resources.
const PATIENCE: Duration = Duration::from_secs(20);
const STATUS: &str = "/status.json";
/// The longest answer: a million resources or so.
pub(super) const MAX_ANSWER: usize = 256 << 20;

/// Which control plane is asked.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Address {
    /// The control plane: what `oxds serve` printed after `grpc`
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:18000", value_parser = host_and_port)]
    pub(crate) server: String,
    /// A gRPC bootstrap, to ask its first server as the client that it is for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "ClientSecurity"])]
    bootstrap: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) security: ClientSecurity,
}

impl Address {
    /// The control plane, and who asks it unless a bootstrap says so: `client`.
    pub(crate) fn bootstrap(
        &self,
        client: impl Fn(Builder) -> Builder,
    ) -> Result<Bootstrap, Failure> {
        match &self.bootstrap {
            Some(file) => check::read(file),
            None => {
                let builder = client(Bootstrap::builder(&self.server));
                let built = self.security.apply(builder)?.build();
                built.map_err(Failure::usage)
            }
        }
    }

    /// The control plane.
    pub(crate) fn server(&self) -> Result<Server, Failure> {
        first_server(&self.bootstrap(|builder| builder)?)
    }
}

/// An address of which gRPC's guess at a port would be wrong.
pub(super) fn host_and_port(text: &str) -> Result<String, String> {
    match text.contains(':') {
        true => Ok(text.to_owned()),
        false => Err("a host and a port: 127.0.0.1:18000".to_owned()),
    }
}

/// The server of a bootstrap that is asked.
pub(crate) fn first_server(bootstrap: &Bootstrap) -> Result<Server, Failure> {
    let server = bootstrap.servers().first();
    let server = server.ok_or_else(|| Failure::usage("the bootstrap names no server"))?;
    // Better than to be refused for want of them.
    if !server.call_credentials.is_empty() {
        let uri = &server.uri;
        return Err(Failure::usage(format_args!(
            "{uri}: call credentials are not shown by this command"
        )));
    }
    Ok(server.clone())
}

/// A control plane, or another process that serves CSDS.
#[derive(Debug, Clone)]
pub(crate) struct ControlPlane(Channel);

impl ControlPlane {
    /// Connects.
    pub(crate) async fn connect(server: &Server) -> Result<Self, Failure> {
        connect(server).await.map(Self)
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
    pub(crate) async fn status_page(&self) -> Option<StatusPage> {
        self.fetch_status(Request::get(STATUS)).await
    }

    /// The status page once it may be another than this one; `None` if it is the same still after `wait`, in whole
    /// seconds, or there is none any more.
    pub(crate) async fn next_status_page(
        &self,
        known: &StatusPage,
        wait: Duration,
    ) -> Option<StatusPage> {
        let request = Request::get(STATUS)
            .header(header::IF_NONE_MATCH, known.tag.as_ref()?)
            .header("prefer", format!("wait={}", wait.as_secs()));
        self.fetch_status(request).await
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
        let body = Limited::new(response.into_body(), MAX_ANSWER);
        let body = body.collect().await.ok()?.to_bytes();
        Some(StatusPage { tag, body })
    }
}

/// What a control plane of ours says of itself and its clients: see `docs/status-json.md`.
#[derive(Debug, Clone)]
pub(crate) struct StatusPage {
    /// What tells it from the next.
    tag: Option<HeaderValue>,
    /// JSON.
    pub(crate) body: Bytes,
}

/// Connects as the server's credentials say.
async fn connect(server: &Server) -> Result<Channel, Failure> {
    let authority = server.address.authority();
    let usage = |error| Failure::usage(format_args!("{authority}: {error}"));
    let mut endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(usage)?
        .connect_timeout(PATIENCE)
        .timeout(PATIENCE);
    if server.credentials.is_private() {
        // tonic refuses https where it would not do TLS itself; this is what it says to the server.
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

/// There is nobody.
pub(super) fn unreachable(address: &str, cause: &str) -> Failure {
    Failure::negative(format_args!("cannot connect to {address}: {cause}"))
        .hint("it is the address that `oxds serve` printed after `grpc`")
}

/// Connects to the server, whatever it is asked for.
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

/// An answer that is none.
pub(crate) fn refused(status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::negative(format_args!("the server answered {code:?}: {message}"))
}
