//! The handle that applications hold.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use oxds_client::channelz::Registry;
use oxds_client::load::LoadReporter;
use tokio::task::JoinHandle;
use tower_service::Service;

use crate::body::{RequestBody, ResponseBody};
use crate::builder::Builder;
use crate::call;
use crate::routing::Shared;
use crate::snapshot::ChannelStatus;

/// A channel to the service behind an `xds:///` target.
///
/// Clones share everything: configuration, picks, connections. It is always ready: a call that has
/// to wait (for the configuration, for a connection) waits in its own future, under its own deadline.
///
/// # Cancel safety
///
/// Dropping the future of a call, or a response body before its end, cancels the RPC and nothing
/// else. Dropping the last clone ends the channel's tasks; RPCs whose answer has begun go on to
/// their end, and their connections with them. Before the runtime ends, [`close`](XdsChannel::close) the
/// last one.
#[derive(Clone)]
pub struct XdsChannel {
    handle: Arc<Handle>,
}

/// What all clones and the calls under way hold; the driver ends with it.
struct Handle {
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
    loads: Option<LoadReporter>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl XdsChannel {
    /// A channel to `target`, as `xds:///service` or `xds://authority/service`.
    pub fn builder(target: impl Into<String>) -> Builder {
        Builder::new(target.into())
    }

    pub(crate) fn new(
        shared: Arc<Shared>,
        driver: JoinHandle<()>,
        loads: Option<LoadReporter>,
    ) -> Self {
        let handle = Arc::new(Handle {
            shared,
            driver,
            loads,
        });
        Self { handle }
    }

    /// Drops this handle. If it was the last one, and no RPC is under way, waits until the control plane
    /// has been told the load that was counted, or that is given up: three seconds at most, and no time
    /// where no cluster reports its load. Without it, a process that exits at once may lose the last report.
    ///
    /// # Cancel safety
    ///
    /// The handle is gone once the future is; what is not told by then is told while the runtime lasts.
    pub async fn close(self) {
        let Some(mut handle) = Arc::into_inner(self.handle) else {
            return;
        };
        // What it counts with must be gone before the last report.
        handle.driver.abort();
        let _ = (&mut handle.driver).await;
        let loads = handle.loads.take();
        drop(handle);
        if let Some(loads) = loads {
            loads.settled().await;
        }
    }

    /// Adds it to what channelz shows.
    pub(crate) fn show(&self, registry: &Registry) {
        registry.add(&self.handle.shared);
    }

    /// The target it was built with.
    pub fn target(&self) -> &str {
        &self.handle.shared.target
    }

    /// What the channel knows now: configuration, clusters, the state of each endpoint.
    pub fn status(&self) -> ChannelStatus {
        ChannelStatus::of(&self.handle.shared)
    }
}

impl fmt::Debug for XdsChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdsChannel")
            .field("target", &self.target())
            .finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for XdsChannel
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let (head, body) = request.into_parts();
        // `Body::new` takes a `tonic::body::Body` as it is.
        let body = RequestBody::take(tonic::body::Body::new(body));
        let request = match body {
            Ok(body) => Request::from_parts(head, body),
            Err(status) => return ResponseFuture::of(std::future::ready(status.into_http())),
        };
        let handle = Arc::clone(&self.handle);
        ResponseFuture::of(async move { call::run(&handle.shared, request).await })
    }
}

/// The answer to come. A failure is an answer, too: headers with a `grpc-status`.
#[must_use = "a call does nothing unless polled"]
pub struct ResponseFuture(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>);

impl ResponseFuture {
    fn of(answer: impl Future<Output = Response<ResponseBody>> + Send + 'static) -> Self {
        Self(Box::pin(answer))
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
