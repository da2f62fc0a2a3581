//! `xds-echo-server ADDRESS METHOD NAME`: a server that its control plane configures (gRFC A36). It answers every call
//! of every method with the bytes of NAME, until stdin closes.
//!
//! Prints `started`, and `mode MODE` when its serving mode changes; logs to stderr as `RUST_LOG` says.
#![allow(clippy::print_stdout, reason = "a program speaks to who started it")]

use std::convert::Infallible;
use std::fmt::Display;
use std::io::Read as _;
use std::process::ExitCode;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use oxds_grpc_server::XdsServer;
use oxds_interop_xds::program;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service;

/// Answer of all methods.
#[derive(Clone)]
struct Echo(Bytes);

type Responding =
    std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Echo
where
    B: http_body::Body<Data: Send, Error: Display> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Responding;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let message = self.0.clone();
        Box::pin(async move {
            if let Err(error) = request.into_body().collect().await {
                return Ok(Status::unknown(error.to_string()).into_http());
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let frames = [Frame::data(message), Frame::trailers(trailers)];
            let frames = tokio_stream::iter(frames.map(Ok::<_, Status>));
            let mut response = Response::new(Body::new(StreamBody::new(frames)));
            let grpc = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert("content-type", grpc);
            Ok(response)
        })
    }
}

type Started = Result<(XdsServer, std::net::SocketAddr), String>;

fn start() -> Started {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, _, name] = arguments.as_slice() else {
        return Err("usage: xds-echo-server ADDRESS METHOD NAME".to_owned());
    };
    let address = address
        .parse()
        .map_err(|error| format!("{address}: {error}"))?;
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(u32::try_from(name.len()).unwrap_or_default());
    message.put_slice(name.as_bytes());
    let router = Routes::default().into_axum_router();
    let server = XdsServer::builder()
        .routes(router.fallback_service(Echo(message.freeze())).into())
        .on_serving_mode(|_, mode| println!("mode {mode}"))
        .build();
    Ok((server.map_err(|error| error.to_string())?, address))
}

#[tokio::main]
async fn main() -> ExitCode {
    program::log();
    program::run(start(), async |(server, address), stop| {
        println!("started");
        let closed = tokio::task::spawn_blocking(|| {
            // Its end counts, however it ends.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        });
        tokio::select! {
            served = server.serve(address) => served,
            _ = closed => Ok(()),
            () = stop => Ok(()),
        }
    })
    .await
}
