//! Servers in channelz: their calls are counted by wrapping their services.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tonic::server::NamedService;
use tower_service::Service;

use super::counter::{CallCounter, CallOutcome};
use super::registry::{Id, Registry, ServerRecord};

/// A server that channelz reports until this value and all services that it counts are dropped.
///
/// ```
/// use oxds_client::{Bootstrap, ClientPool};
///
/// # fn main() -> Result<(), oxds_client::BootstrapError> {
/// let pool = ClientPool::new(Bootstrap::builder("127.0.0.1:18000").build()?);
/// let server = pool.channelz().server("orders", "[::1]:50051".parse().expect("an address"));
/// // With tonic: `Server::builder().add_service(server.count(service))`.
/// # let _ = server;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CountedServer {
    record: Arc<ServerRecord>,
}

impl Registry {
    /// Registers a server that listens on this address.
    #[must_use]
    pub fn server(&self, name: impl Into<String>, listens: SocketAddr) -> CountedServer {
        let record = Arc::new(ServerRecord {
            id: Id::next(),
            name: name.into(),
            listens: (Id::next(), listens),
            calls: CallCounter::default(),
        });
        self.add_server(&record);
        CountedServer { record }
    }
}

impl CountedServer {
    /// Counts the start of a call. Its end is counted when the returned value is dropped.
    #[must_use]
    pub fn begin(&self) -> CountedCall {
        CountedCall::begin(&self.record)
    }

    /// Wraps a service so that its calls are counted.
    #[must_use]
    pub fn count<S>(&self, service: S) -> CountedService<S> {
        CountedService {
            service,
            record: Arc::clone(&self.record),
        }
    }
}

/// A service whose calls are counted for a [`CountedServer`].
#[derive(Debug, Clone)]
pub struct CountedService<S> {
    service: S,
    record: Arc<ServerRecord>,
}

impl<S: NamedService> NamedService for CountedService<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B, R> Service<Request<B>> for CountedService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<CountedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = CountedCall::begin(&self.record);
        let answering = self.service.call(request);
        Box::pin(async move {
            let mut call = call;
            let response = answering.await?;
            // gRPC over HTTP/2, "Trailers-Only": a response without a body has its status in the headers.
            call.read_status(response.headers());
            Ok(response.map(|body| CountedBody {
                body,
                call: Some(call),
            }))
        })
    }
}

/// A call in progress; its end is counted when it is dropped.
#[derive(Debug)]
pub struct CountedCall {
    record: Arc<ServerRecord>,
    outcome: CallOutcome,
}

impl CountedCall {
    fn begin(record: &Arc<ServerRecord>) -> Self {
        record.calls.begin();
        Self {
            record: Arc::clone(record),
            outcome: CallOutcome::Broken,
        }
    }

    /// Reads the status of the call, if these headers or trailers have it.
    pub fn read_status(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.outcome = match status.as_bytes() {
                b"0" => CallOutcome::Ok,
                _ => CallOutcome::NotOk,
            };
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.record.calls.end(self.outcome);
    }
}

/// Response body that counts the end of its call.
#[derive(Debug)]
pub struct CountedBody<B> {
    body: B,
    /// The call, until its end.
    call: Option<CountedCall>,
}

impl<B: Body + Unpin> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let trailers = match &frame {
            Some(Ok(frame)) => frame.trailers_ref(),
            _ => None,
        };
        if let (Some(call), Some(trailers)) = (&mut self.call, trailers) {
            call.read_status(trailers);
        }
        if trailers.is_some() || !matches!(frame, Some(Ok(_))) {
            self.call = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Default> Default for CountedBody<B> {
    fn default() -> Self {
        Self {
            body: B::default(),
            call: None,
        }
    }
}
