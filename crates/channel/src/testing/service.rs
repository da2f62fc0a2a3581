//! The gRPC service of the echo backend, and its settings and counters.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::service::Service;
use oxds_client::load::STREAM_METHOD;
use tokio::sync::{Notify, watch};

/// The response header that names the backend by its address.
pub const BACKEND_HEADER: &str = "x-backend";

/// The `:authority` and the `:scheme` among kept headers.
const AUTHORITY: HeaderName = HeaderName::from_static("x-authority");
const SCHEME: HeaderName = HeaderName::from_static("x-scheme");

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");

type Reply = Result<Response<EchoBody>, Infallible>;

/// Settings and counters that the backend's handle and its connections share.
#[derive(Debug, Default)]
pub(super) struct EchoState {
    /// The gRPC status code of every response; 0 echoes.
    pub(super) code: AtomicU32,
    pub(super) delay_micros: AtomicU64,
    /// Trailers of every echo, in addition to the status.
    pub(super) trailers: ArcSwap<HeaderMap>,
    /// `MAX_CONCURRENT_STREAMS` of new connections; 0 for no limit.
    pub(super) max_streams: AtomicU32,
    /// Number of requests after which a new connection goes away; 0 for no limit.
    pub(super) max_requests: AtomicU32,
    /// Number of the next calls that fail.
    pub(super) failures: AtomicU32,
    /// gRPC status code and headers of these failures.
    pub(super) failure: ArcSwap<(u32, HeaderMap)>,
    /// Headers of the last request.
    pub(super) request_headers: ArcSwap<HeaderMap>,
    /// Load report out of band, as a length-prefixed message; UNIMPLEMENTED without one.
    pub(super) report: watch::Sender<Option<Bytes>>,
    /// Notified to end the open streams of load reports.
    pub(super) report_end: Notify,
    /// Number of streams of load reports.
    pub(super) report_streams: AtomicU64,
    /// Number of open streams of load reports.
    pub(super) open_report_streams: AtomicUsize,
    pub(super) calls: AtomicU64,
    pub(super) connections: AtomicUsize,
    pub(super) accepted: AtomicU64,
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct ConnectionRequests {
    max: u32,
    count: AtomicU32,
    full: Notify,
}

impl ConnectionRequests {
    fn add(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count == self.max {
            self.full.notify_one();
        }
    }

    /// Completes once, when the limit is reached. Cancel-safe.
    pub(super) async fn full(&self) {
        self.full.notified().await;
    }
}

/// Echoes the messages of every method.
#[derive(Clone)]
pub(super) struct EchoService {
    name: HeaderValue,
    state: Arc<EchoState>,
    pub(super) requests: Arc<ConnectionRequests>,
}

impl EchoService {
    pub(super) fn new(address: SocketAddr, state: Arc<EchoState>) -> Self {
        let name = HeaderValue::try_from(address.to_string());
        let name = name.unwrap_or(HeaderValue::from_static("unknown"));
        let requests = Arc::new(ConnectionRequests {
            max: state.max_requests.load(Ordering::Relaxed),
            count: AtomicU32::new(0),
            full: Notify::new(),
        });
        Self {
            name,
            state,
            requests,
        }
    }

    /// Returns the stream of load reports (gRFC A51).
    fn reports(&self) -> Response<EchoBody> {
        let state = &self.state;
        state.report_streams.fetch_add(1, Ordering::Relaxed);
        let has_reports = state.report.borrow().is_some();
        let body = if has_reports {
            EchoBody::Reports(ReportBody::new(state))
        } else {
            EchoBody::Ended
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, GRPC);
        if !has_reports {
            headers.insert(GRPC_STATUS, UNIMPLEMENTED);
        }
        response
    }

    fn reply(&self, request: Request<Incoming>) -> Response<EchoBody> {
        let failing =
            self.state
                .failures
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                });
        let failure = failing.is_ok().then(|| self.state.failure.load_full());
        let always = self.state.code.load(Ordering::Relaxed);
        let code = failure.as_ref().map_or(always, |failure| failure.0);
        let body = match code {
            0 => EchoBody::Frames(request.into_body(), Arc::clone(&self.state)),
            _ => EchoBody::Ended,
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, GRPC);
        headers.insert(BACKEND_HEADER, self.name.clone());
        if let Some(failure) = failure {
            headers.extend(failure.1.clone());
        }
        if code != 0 {
            headers.insert(GRPC_STATUS, HeaderValue::from(code));
        }
        response
    }
}

impl Service<Request<Incoming>> for EchoService {
    type Response = Response<EchoBody>;
    type Error = Infallible;
    // Benchmarks use this backend, so a call without delay must not cost a box.
    type Future = EchoFuture;

    fn call(&self, request: Request<Incoming>) -> EchoFuture {
        if request.uri().path() == STREAM_METHOD {
            return EchoFuture::Ready(ready(Ok(self.reports())));
        }
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        if self.state.failures.load(Ordering::Relaxed) > 0
            || request.headers().contains_key("x-keep")
        {
            let mut headers = request.headers().clone();
            let authority = request.uri().authority().map(Authority::as_str);
            let authority = HeaderValue::try_from(authority.unwrap_or_default());
            headers.extend(authority.ok().map(|value| (AUTHORITY, value)));
            let scheme = request.uri().scheme_str().unwrap_or_default();
            headers.extend(HeaderValue::try_from(scheme).map(|value| (SCHEME, value)));
            self.state.request_headers.store(Arc::new(headers));
        }
        self.requests.add();
        let delay = self.state.delay_micros.load(Ordering::Relaxed);
        if delay == 0 {
            return EchoFuture::Ready(ready(Ok(self.reply(request))));
        }
        let echo = self.clone();
        EchoFuture::Delayed(Box::pin(async move {
            tokio::time::sleep(Duration::from_micros(delay)).await;
            Ok(echo.reply(request))
        }))
    }
}

/// Reply that is ready at once, or after the delay.
pub(super) enum EchoFuture {
    Ready(std::future::Ready<Reply>),
    Delayed(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

impl Future for EchoFuture {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        match &mut *self {
            Self::Ready(ready) => Pin::new(ready).poll(cx),
            Self::Delayed(delayed) => delayed.as_mut().poll(cx),
        }
    }
}

/// The request's messages, then the trailers; or load reports.
pub(super) enum EchoBody {
    Frames(Incoming, Arc<EchoState>),
    Reports(ReportBody),
    Ended,
}

/// A stream of load reports: the current one, then each that follows.
pub(super) struct ReportBody {
    next: NextReport,
    open: OpenReports,
}

type Report = Option<Bytes>;
type NextReport = Pin<Box<dyn Future<Output = (Report, watch::Receiver<Report>)> + Send>>;

impl ReportBody {
    fn new(state: &Arc<EchoState>) -> Self {
        state.open_report_streams.fetch_add(1, Ordering::Relaxed);
        let mut receiver = state.report.subscribe();
        receiver.mark_changed();
        Self {
            next: next_report(receiver, Arc::clone(state)),
            open: OpenReports(Arc::clone(state)),
        }
    }
}

/// Waits for a report that was not sent yet; `None` ends the stream.
fn next_report(mut receiver: watch::Receiver<Report>, state: Arc<EchoState>) -> NextReport {
    Box::pin(async move {
        let report = tokio::select! {
            // The state has the sender, so it is not dropped.
            _ = receiver.changed() => receiver.borrow_and_update().clone(),
            () = state.report_end.notified() => None,
        };
        (report, receiver)
    })
}

/// Counts an open stream of load reports until dropped.
pub(super) struct OpenReports(Arc<EchoState>);

impl Drop for OpenReports {
    fn drop(&mut self) {
        self.0.open_report_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for EchoBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let (incoming, state) = match &mut *self {
            Self::Frames(incoming, state) => (incoming, state),
            Self::Reports(body) => {
                let (report, receiver) = std::task::ready!(body.next.as_mut().poll(cx));
                let Some(report) = report else {
                    *self = Self::Ended;
                    let unavailable = HeaderValue::from_static("14");
                    let trailers = HeaderMap::from_iter([(GRPC_STATUS, unavailable)]);
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                };
                body.next = next_report(receiver, Arc::clone(&body.open.0));
                return Poll::Ready(Some(Ok(Frame::data(report))));
            }
            Self::Ended => return Poll::Ready(None),
        };
        loop {
            match std::task::ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
                // Many requests end with an empty frame, which is not echoed: h2 treats a peer that
                // sends many of them before the end of a stream as an attacker.
                Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                Some(Ok(frame)) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(_)) | None => break,
            }
        }
        let mut trailers = HeaderMap::clone(&state.trailers.load());
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        *self = Self::Ended;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Ended)
    }
}
