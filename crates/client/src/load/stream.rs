//! The LRS stream as IO: connects, writes reports, reads orders.

use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use http::uri::PathAndQuery;
use oxds_types::ApiVersion;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

use crate::bootstrap::Server;
use crate::client::Options;
use crate::link::Link;
use crate::transport::RequestCodec;

/// How long a server has to read the last report.
const LAST: Duration = Duration::from_secs(1);

/// What happened to the stream.
#[derive(Debug)]
pub(super) enum Io {
    /// Reports can be written; the server may send its headers with its first response only (C-64).
    Opened,
    Response(LoadStatsResponse),
    /// It ended, or never began.
    Closed(Status),
}

/// A stream to one server, in whatever state it is. Dropping it closes it, and its connection.
#[derive(Debug, Default)]
pub(super) struct LoadStream(Option<Live>);

#[derive(Debug)]
struct Live {
    /// As large as the reports are often; the machine makes none while there is no stream.
    requests: mpsc::UnboundedSender<LoadStatsRequest>,
    events: mpsc::Receiver<Io>,
    conversation: Conversation,
}

/// The task that holds the connection; dropping it ends both.
#[derive(Debug)]
struct Conversation(JoinHandle<()>);

impl Drop for Conversation {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LoadStream {
    pub(super) fn closed() -> Self {
        Self::default()
    }

    /// Begins to connect. Needs a tokio runtime.
    pub(super) fn open(server: &Server, options: &Options) -> Self {
        let (requests, queue) = mpsc::unbounded_channel();
        let (tell, events) = mpsc::channel(1);
        let (server, options) = (server.clone(), options.clone());
        let conversation = tokio::spawn(async move {
            let status = match converse(&server, &options, queue, &tell).await {
                Ok(()) => Status::ok("the server ended the stream"),
                Err(status) => status,
            };
            // Nobody listens to the end of a stream that was finished.
            let _ = tell.send(Io::Closed(status)).await;
        });
        Self(Some(Live {
            requests,
            events,
            conversation: Conversation(conversation),
        }))
    }

    pub(super) fn write(&self, request: LoadStatsRequest) {
        if let Some(live) = &self.0 {
            // Should the stream have ended, the next read says so.
            let _ = live.requests.send(request);
        }
    }

    /// Ends the requests; the connection closes when the server has read them, or after a second, and `telling` with it.
    pub(super) fn finish(self, telling: watch::Receiver<()>) {
        if let Some(live) = self.0 {
            tokio::spawn(async move {
                let mut conversation = live.conversation;
                // The end of the requests, and nobody who would listen to responses.
                drop((live.requests, live.events));
                let _ = timeout(LAST, &mut conversation.0).await;
                drop(telling);
            });
        }
    }

    /// What happens next; pends while closed. Cancel-safe.
    pub(super) async fn next(&mut self) -> Io {
        let Some(live) = &mut self.0 else {
            return std::future::pending().await;
        };
        let io = live.events.recv().await;
        // It says how it ended; if not, it was aborted with its runtime.
        let io = io.unwrap_or_else(|| Io::Closed(Status::cancelled("the runtime is gone")));
        if matches!(io, Io::Closed(_)) {
            self.0 = None;
        }
        io
    }
}

/// One stream, from connecting to its end.
async fn converse(
    server: &Server,
    options: &Options,
    requests: mpsc::UnboundedReceiver<LoadStatsRequest>,
    tell: &mpsc::Sender<Io>,
) -> Result<(), Status> {
    let unavailable = |error: String| Status::unavailable(error);
    let connected = Link::connect(server, options.keepalive).await;
    let link = connected.map_err(|error| unavailable(error.to_string()))?;
    let mut grpc = link
        .grpc()
        .max_decoding_message_size(options.most_response_bytes);
    let ready = grpc.ready().await;
    ready.map_err(|error| unavailable(error.to_string()))?;
    // Who finished the stream listens no more, but the server is still to read what was written.
    let _ = tell.send(Io::Opened).await;
    let version = server.version();
    let called = grpc.streaming(
        tonic::Request::new(UnboundedReceiverStream::new(requests)),
        PathAndQuery::from_static(method(version)),
        RequestCodec::<LoadStatsRequest, LoadStatsResponse>::new(version),
    );
    let mut responses = called.await?.into_inner();
    while let Some(response) = responses.message().await? {
        let _ = tell.send(Io::Response(response)).await;
    }
    Ok(())
}

/// C-60: the server is asked about load in the version in which it is asked for resources.
fn method(version: ApiVersion) -> &'static str {
    match version {
        ApiVersion::V2 => "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats",
        ApiVersion::V3 => "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats",
    }
}
