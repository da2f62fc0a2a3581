//! Servers: what they serve is counted by wrapping it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tonic::server::NamedService;
use tower_service::Service;

use super::{CallCounter, Calls, Ended, Id, Registry};

/// A server that is shown for as long as this or a service that it counts lives.
///
/// ```
/// use oxds_client::{Bootstrap, ClientPool};
///
/// # fn main() -> Result<(), oxds_client::BootstrapError> {
/// let pool = ClientPool::new(Bootstrap::builder("127.0.0.1:18000").build()?);
/// let shown = pool.channelz().server("orders", "[::1]:50051".parse().expect("an address"));
/// // With tonic: `Server::builder().add_service(shown.count(service))`.
/// # let _ = shown;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) id: Id,
    pub(super) name: String,
    /// The number of the socket that it listens on, and its address.
    pub(super) listens: (Id, SocketAddr),
    calls: CallCounter,
}

impl Shared {
    pub(super) fn calls(&self) -> Calls {
        self.calls.calls()
    }
}

impl Registry {
    /// Shows a server that listens there.
    #[must_use]
    pub fn server(&self, name: impl Into<String>, listens: SocketAddr) -> Server {
        let shared = Arc::new(Shared {
            id: Id::next(),
            name: name.into(),
            listens: (Id::next(), listens),
            calls: CallCounter::default(),
        });
        let servers = &mut self.lock().servers;
        servers.retain(|_, known| known.strong_count() > 0);
        servers.insert(shared.id, Arc::downgrade(&shared));
        Server { shared }
    }
}

impl Server {
    /// The service, with its calls counted.
    #[must_use]
    pub fn count<S>(&self, service: S) -> Counted<S> {
        Counted {
            service,
            shared: Arc::clone(&self.shared),
        }
    }
}

/// A service whose calls are counted on a [`Server`].
#[derive(Debug, Clone)]
pub struct Counted<S> {
    service: S,
    shared: Arc<Shared>,
}

impl<S: NamedService> NamedService for Counted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B, R> Service<Request<B>> for Counted<S>
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
        let call = Call::begin(&self.shared);
        let answering = self.service.call(request);
        Box::pin(async move {
            let mut call = call;
            let response = answering.await?;
            // A status in the head is the end, if the body has nothing more to say.
            call.hear(response.headers());
            Ok(response.map(|body| CountedBody {
                body,
                call: Some(call),
            }))
        })
    }
}

/// A call under way; dropped at its end.
#[derive(Debug)]
struct Call {
    shared: Arc<Shared>,
    ended: Ended,
}

impl Call {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.calls.begin();
        Self {
            shared: Arc::clone(shared),
            ended: Ended::Broken,
        }
    }

    fn hear(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.ended = match status.as_bytes() {
                b"0" => Ended::Ok,
                _ => Ended::NotOk,
            };
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.shared.calls.end(self.ended);
    }
}

/// A response body that tells how its call ended.
#[derive(Debug)]
pub struct CountedBody<B> {
    body: B,
    /// Until the end.
    call: Option<Call>,
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
            call.hear(trailers);
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
