//! An LRS stream as IO: connects, writes load reports, reads responses.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use http::uri::PathAndQuery;
use oxds_types::ApiVersion;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

use crate::link::RequestCodec;
use crate::link::ServerLink;

/// Time that a server has to read the last report.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Event of a stream.
#[derive(Debug)]
pub(super) enum LoadStreamEvent {
    /// Requests can be written. Some servers send headers only with their first response (C-64).
    Opened,
    Response(LoadStatsResponse),
    /// The stream ended, or could not be opened.
    Closed(Status),
}

/// A stream to one server, open or closed. Dropping it closes the stream.
#[derive(Debug, Default)]
pub(super) struct LoadStream(Option<OpenStream>);

#[derive(Debug)]
struct OpenStream {
    /// Unbounded, but bounded in effect: the state machine makes one report per interval, and none without a stream.
    requests: mpsc::UnboundedSender<LoadStatsRequest>,
    events: mpsc::Receiver<LoadStreamEvent>,
    task: StreamTask,
}

/// Task of the stream. Dropping it ends the stream.
#[derive(Debug)]
struct StreamTask(JoinHandle<()>);

impl Drop for StreamTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LoadStream {
    pub(super) fn closed() -> Self {
        Self::default()
    }

    /// Starts connecting to the server. Must be called in a tokio runtime.
    pub(super) fn open(link: Arc<ServerLink>, max_response_bytes: usize) -> Self {
        let (requests, queue) = mpsc::unbounded_channel();
        let (sender, events) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let status = match run(&link, max_response_bytes, queue, &sender).await {
                Ok(()) => Status::ok("the server ended the stream"),
                Err(status) => status,
            };
            // After `finish`, the receiver is gone.
            let _ = sender.send(LoadStreamEvent::Closed(status)).await;
        });
        Self(Some(OpenStream {
            requests,
            events,
            task: StreamTask(task),
        }))
    }

    pub(super) fn write(&self, request: LoadStatsRequest) {
        if let Some(stream) = &self.0 {
            // If the stream has ended, the next read reports it.
            let _ = stream.requests.send(request);
        }
    }

    /// Ends the requests. The stream closes when the server has read them or after one second; `sending` is dropped
    /// then.
    pub(super) fn finish(self, sending: watch::Receiver<()>) {
        if let Some(stream) = self.0 {
            tokio::spawn(async move {
                let mut task = stream.task;
                // Dropping the sender half-closes the stream; responses are not read any more.
                drop((stream.requests, stream.events));
                let _ = timeout(LAST_REPORT_TIMEOUT, &mut task.0).await;
                drop(sending);
            });
        }
    }

    /// Waits for the next event; never completes while closed. Cancel-safe.
    pub(super) async fn next(&mut self) -> LoadStreamEvent {
        let Some(stream) = &mut self.0 else {
            return std::future::pending().await;
        };
        let event = stream.events.recv().await;
        // The task always sends `Closed` last, unless it was aborted with its runtime.
        let event = event.unwrap_or_else(|| {
            LoadStreamEvent::Closed(Status::cancelled("the runtime has stopped"))
        });
        if matches!(event, LoadStreamEvent::Closed(_)) {
            self.0 = None;
        }
        event
    }
}

/// Runs one stream, from connecting to its end.
async fn run(
    link: &ServerLink,
    max_response_bytes: usize,
    requests: mpsc::UnboundedReceiver<LoadStatsRequest>,
    events: &mpsc::Sender<LoadStreamEvent>,
) -> Result<(), Status> {
    let unavailable = |error: String| Status::unavailable(error);
    let connected = link.connection().await;
    let connection = connected.map_err(|error| unavailable(error.to_string()))?;
    let mut grpc = connection
        .grpc()
        .max_decoding_message_size(max_response_bytes);
    let ready = grpc.ready().await;
    ready.map_err(|error| unavailable(error.to_string()))?;
    // After `finish`, the receiver is gone, but the server must still get the requests that were written.
    let _ = events.send(LoadStreamEvent::Opened).await;
    let version = link.server().version();
    let called = grpc.streaming(
        tonic::Request::new(UnboundedReceiverStream::new(requests)),
        PathAndQuery::from_static(method(version)),
        RequestCodec::<LoadStatsRequest, LoadStatsResponse>::new(version),
    );
    let mut responses = called.await?.into_inner();
    while let Some(response) = responses.message().await? {
        let _ = events.send(LoadStreamEvent::Response(response)).await;
    }
    Ok(())
}

/// Returns the path of the call. Load is reported in the API version in which resources are asked for (C-60).
fn method(version: ApiVersion) -> &'static str {
    match version {
        ApiVersion::V2 => "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats",
        ApiVersion::V3 => "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats",
    }
}
