//! Single gRPC calls with chosen headers, source address and certificate: no gRPC library sends any header by itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::Fallible;

/// A call that takes longer than this is a failure.
const LIMIT: Duration = Duration::from_secs(5);
/// An empty message: not compressed, of length 0.
const MESSAGE: &[u8] = &[0; 5];
/// Protocol that TLS connections agree to.
pub(crate) const ALPN: &str = "h2";

/// A connection to a gRPC server.
pub(crate) struct RawClient(SendRequest<Full<Bytes>>);

/// Status of a call: code and message.
pub(crate) type RawStatus = (u32, String);

impl RawClient {
    /// Connects from a source address, with TLS if there is a connector.
    pub(crate) async fn connect(
        source: IpAddr,
        server: SocketAddr,
        tls: Option<&TlsConnector>,
    ) -> Fallible<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        let stream = socket.connect(server).await?;
        let sender = match tls {
            None => handshake(TokioIo::new(stream)).await?,
            Some(tls) => {
                let name = ServerName::IpAddress(server.ip().into());
                handshake(TokioIo::new(tls.connect(name, stream).await?)).await?
            }
        };
        Ok(Self(sender))
    }

    /// Calls a method with an empty message, and returns the status.
    pub(crate) async fn call(
        &mut self,
        authority: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Fallible<RawStatus> {
        let request = Request::post(format!("http://{authority}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let request = request.body(Full::new(Bytes::from_static(MESSAGE)))?;
        let exchange = async {
            self.0.ready().await?;
            status(self.0.send_request(request).await?).await
        };
        let status = timeout(LIMIT, exchange).await;
        status.map_err(|_| format!("{path}: late"))?
    }
}

async fn handshake<T>(io: T) -> Fallible<SendRequest<Full<Bytes>>>
where
    T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Returns the status of a response: in its trailers, or in its headers if it has no message.
async fn status(response: Response<Incoming>) -> Fallible<RawStatus> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?;
    let found = body
        .trailers()
        .and_then(read)
        .or_else(|| read(&head.headers));
    found.ok_or_else(|| format!("no grpc-status in a response with status {}", head.status).into())
}

fn read(headers: &HeaderMap) -> Option<RawStatus> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message");
    let message = message.and_then(|message| message.to_str().ok());
    Some((code, message.unwrap_or_default().to_owned()))
}
