//! The compared channels, and how each is opened.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use oxds_channel::XdsChannel;
use oxds_client::Bootstrap;
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use crate::keys;

/// Opens our channel.
pub(crate) fn oxds(control_plane: &str) -> Result<XdsChannel, String> {
    oxds_by(&bootstrap(control_plane))
}

/// Opens our channel to a cluster with TLS; the folder has its keys.
pub(crate) fn oxds_secured(control_plane: &str, keys: &Path) -> Result<XdsChannel, String> {
    let mut bootstrap: serde_json::Value =
        serde_json::from_str(&bootstrap(control_plane)).map_err(|error| error.to_string())?;
    bootstrap["certificate_providers"] = keys::providers(keys, "client");
    oxds_by(&bootstrap.to_string())
}

/// The same, with a bootstrap.
pub(crate) fn oxds_by(bootstrap: &str) -> Result<XdsChannel, String> {
    let bootstrap = Bootstrap::from_json(bootstrap).map_err(|e| e.to_string())?;
    XdsChannel::builder("xds:///bench")
        .bootstrap(bootstrap)
        .build()
        .map_err(|e| e.to_string())
}

/// A bootstrap that names one insecure control plane.
pub(crate) fn bootstrap(control_plane: &str) -> String {
    format!(
        r#"{{"xds_servers":[{{"server_uri":"{control_plane}","channel_creds":[{{"type":"insecure"}}],
            "server_features":["xds_v3"]}}],"node":{{"id":"bench"}}}}"#
    )
}

/// Opens a `balance_list` channel over `addresses`.
pub(crate) fn balance_list(addresses: &[String]) -> Result<Channel, String> {
    let endpoints: Vec<Endpoint> = addresses
        .iter()
        .map(|address| Endpoint::from_shared(format!("http://{address}")))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    Ok(Channel::balance_list(endpoints.into_iter()))
}

/// Opens a `balance_list` channel over `addresses` with tonic's own TLS; the folder has its keys.
pub(crate) fn balance_list_secured(addresses: &[String], keys: &Path) -> Result<Channel, String> {
    let tls = keys::tonic_client(keys)?;
    let endpoint = |address: &String| {
        let endpoint = Endpoint::from_shared(format!("https://{address}"))?;
        endpoint.tls_config(tls.clone())
    };
    let endpoints: Result<Vec<_>, tonic::transport::Error> =
        addresses.iter().map(endpoint).collect();
    let endpoints = endpoints.map_err(|error| error.to_string())?;
    Ok(Channel::balance_list(endpoints.into_iter()))
}

/// Opens a tonic-xds channel.
pub(crate) fn tonic_xds(control_plane: &str) -> Result<tonic_xds::XdsChannelGrpc, String> {
    // It takes a URL where gRPC's bootstrap has a target.
    tonic_xds_by(&bootstrap(&format!("http://{control_plane}")))
}

/// The same, with a bootstrap.
pub(crate) fn tonic_xds_by(bootstrap: &str) -> Result<tonic_xds::XdsChannelGrpc, String> {
    let target = tonic_xds::XdsUri::parse("xds:///bench").map_err(|error| error.to_string())?;
    let bootstrap =
        tonic_xds::BootstrapConfig::from_json(bootstrap).map_err(|error| error.to_string())?;
    let config = tonic_xds::XdsChannelConfig::new(target).with_bootstrap(bootstrap);
    tonic_xds::XdsChannelBuilder::new(config)
        .build_grpc_channel()
        .map_err(|error| error.to_string())
}

/// Round robin over hyper connections: the minimum cost of a channel on hyper.
#[derive(Debug, Clone)]
pub(crate) struct HyperRoundRobin {
    connections: Arc<[SendRequest<Body>]>,
    next: Arc<AtomicUsize>,
}

impl HyperRoundRobin {
    /// Connects to every address.
    pub(crate) async fn connect(addresses: &[String]) -> Result<Self, String> {
        let mut connections = Vec::new();
        for address in addresses {
            connections.push(
                connect(address)
                    .await
                    .map_err(|e| format!("{address}: {e}"))?,
            );
        }
        Ok(Self {
            connections: connections.into(),
            next: Arc::default(),
        })
    }
}

async fn connect(address: &str) -> Result<SendRequest<Body>, Box<dyn std::error::Error>> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

impl Service<http::Request<Body>> for HyperRoundRobin {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len();
        Box::pin(self.connections[index].clone().send_request(request))
    }
}
