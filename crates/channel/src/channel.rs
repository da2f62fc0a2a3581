//! The channel handle that applications hold.

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

use crate::builder::Builder;
use crate::call::{self, ResponseBody};
use crate::routing::ChannelShared;
use crate::snapshot::ChannelStatus;
use crate::stream::RequestBody;

/// A channel to the service behind an `xds:///` target.
///
/// Clones share configuration, pickers and connections. `poll_ready` is always ready: a call that must
/// wait for the configuration or for a connection waits in its own future, until its own deadline.
///
/// # Errors
///
/// The service itself never fails. Every failure of an RPC is a response whose headers have a
/// `grpc-status`.
///
/// # Cancel safety
///
/// Dropping the future of a call, or a response body before its end, cancels this RPC and nothing
/// else. Dropping the last clone ends the channel's task. RPCs whose response has begun continue to
/// their end, and their connections stay open until then. Before the runtime ends,
/// [`close`](XdsChannel::close) the last clone.
#[derive(Clone)]
pub struct XdsChannel {
    handle: Arc<ChannelHandle>,
}

/// State that all clones and the calls under way hold; its drop ends the driver.
struct ChannelHandle {
    shared: Arc<ChannelShared>,
    driver: JoinHandle<()>,
    loads: Option<LoadReporter>,
}

impl Drop for ChannelHandle {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl XdsChannel {
    /// Returns a builder of a channel to `target`, as `xds:///service` or `xds://authority/service`.
    /// The target is checked by [`Builder::build`].
    pub fn builder(target: impl Into<String>) -> Builder {
        Builder::new(target.into())
    }

    pub(crate) fn new(
        shared: Arc<ChannelShared>,
        driver: JoinHandle<()>,
        loads: Option<LoadReporter>,
    ) -> Self {
        let handle = Arc::new(ChannelHandle {
            shared,
            driver,
            loads,
        });
        Self { handle }
    }

    /// Drops this clone. If it was the last one and no RPC is under way, waits until the counted load is
    /// reported to the control plane, for at most three seconds. Returns at once if no cluster reports
    /// load. Without this call, a process that exits at once may lose its last load report.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the clone. A pending load report is still sent while the runtime
    /// continues.
    pub async fn close(self) {
        let Some(mut handle) = Arc::into_inner(self.handle) else {
            return;
        };
        // The driver holds load counters: they must be dropped before the last report is made.
        handle.driver.abort();
        let _ = (&mut handle.driver).await;
        let loads = handle.loads.take();
        drop(handle);
        if let Some(loads) = loads {
            loads.settled().await;
        }
    }

    /// Adds the channel to the channelz registry, which holds it weakly.
    pub(crate) fn register(&self, registry: &Registry) {
        registry.add(&self.handle.shared);
    }

    /// Returns the target that the channel was built with.
    pub fn target(&self) -> &str {
        &self.handle.shared.target
    }

    /// Returns the current state of the configuration, of each cluster and of each endpoint.
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
        let mut request = match body {
            Ok(body) => Request::from_parts(head, body),
            Err(status) => return ResponseFuture::new(std::future::ready(status.into_http())),
        };
        let handle = Arc::clone(&self.handle);
        ResponseFuture::new(async move { call::run(&handle.shared, &mut request).await })
    }
}

/// Future of a response. Resolves when the head of the response arrives, and never fails: a failed RPC
/// is a response whose headers have a `grpc-status`. Dropping it cancels the RPC.
#[must_use = "a call does nothing unless polled"]
pub struct ResponseFuture(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>);

impl ResponseFuture {
    fn new(response: impl Future<Output = Response<ResponseBody>> + Send + 'static) -> Self {
        Self(Box::pin(response))
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
