//! A gRPC client on one HTTP/2 connection.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderValue, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::{Code, Status};

use oxds_testkit::SOON;

/// A connection, and what ends it.
pub(crate) struct Client {
    sender: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// A call whose response has not been read.
pub(crate) struct Call(ResponseFuture);

/// The status of a call, and its message if it is OK.
pub(crate) type Reply = Result<Bytes, Status>;

impl Client {
    pub(crate) async fn connect(server: SocketAddr) -> Self {
        let socket = TcpStream::connect(server)
            .await
            .expect("the server listens");
        Self::over(socket).await
    }

    pub(crate) async fn over<T>(socket: T) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = h2::client::handshake(socket).await.unwrap();
        Self {
            sender,
            connection: tokio::spawn(connection),
        }
    }

    /// Calls a method of the echo with the message `hello`.
    pub(crate) async fn call(&mut self, method: &str) -> Reply {
        self.call_at("svc", &format!("/echo.Echo/{method}")).await
    }

    pub(crate) async fn call_at(&mut self, authority: &str, path: &str) -> Reply {
        self.start(authority, path, &[]).await?.reply().await
    }

    /// Sends a call of an authority and a path with these headers.
    pub(crate) async fn start(
        &mut self,
        authority: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Call, Status> {
        let unavailable = |error: h2::Error| Status::unavailable(error.to_string());
        let mut sender = self.sender.clone().ready().await.map_err(unavailable)?;
        let mut request = Request::post(format!("http://{authority}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            // Also bytes that are no text.
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let (response, mut body) = sender
            .send_request(request.body(()).unwrap(), false)
            .map_err(unavailable)?;
        let message = Bytes::from_static(b"\0\0\0\0\x05hello");
        // A response that needs no message may have ended the stream.
        let _ = body.send_data(message, true);
        Ok(Call(response))
    }

    /// Waits until the server has announced the end of the connection: it takes no further call.
    pub(crate) async fn goes_away(&mut self) {
        let going = async { while self.call("Call").await.is_ok() {} };
        timeout(SOON, going).await.expect("GOAWAY in time");
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(self) {
        // The sender lives on: without one, the client would close the connection itself.
        let closed = timeout(SOON, self.connection).await;
        // The end of the connection counts, not how.
        let _ = closed.expect("closed in time").unwrap();
    }
}

impl Call {
    pub(crate) async fn reply(self) -> Reply {
        let reply = timeout(SOON, self.read()).await;
        reply.expect("a reply in time")
    }

    async fn read(self) -> Reply {
        let broken = |error: h2::Error| Status::unavailable(error.to_string());
        let response = self.0.await.map_err(broken)?;
        if let Some(status) = Status::from_header_map(response.headers()) {
            return Err(status);
        }
        let mut body = response.into_body();
        let mut message = Vec::new();
        while let Some(data) = body.data().await {
            message.extend_from_slice(&data.map_err(broken)?);
        }
        let trailers = body.trailers().await.map_err(broken)?;
        let status = trailers.as_ref().and_then(Status::from_header_map);
        match status {
            Some(status) if status.code() == Code::Ok => Ok(message.into()),
            Some(status) => Err(status),
            None => Err(Status::internal("no status")),
        }
    }
}
