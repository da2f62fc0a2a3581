//! Load reports of an endpoint out of band (gRFC A51): one stream on its connection, for all who watch them.
//!
//! The task exists while there is a watcher. It opens the stream on the first open connection, with the shortest of the
//! periods of its watchers, and opens it again when that period or the connection changes.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body::Body as _;
use oxds_client::channelz::CallOutcome;
use oxds_client::load::{OrcaLoadReport, ReportReader, STREAM_METHOD, report_request};
use oxds_core::lb::ReportStream;
use oxds_core::time::Instant;
use oxds_net::rpc::random;
use tokio::sync::futures::Notified;
use tokio::time::sleep_until;
use tonic::{Code, Status};

use super::state::{SubchannelShared, SubchannelState};
use super::watchers::ReportWatchers;
use crate::attempt::{non_grpc, outcome_of, status};
use crate::stream::{Connection, RequestBody};

/// Receives reports until the last watcher is removed.
pub(super) async fn run(shared: Arc<SubchannelShared>, watchers: Arc<ReportWatchers>) {
    loop {
        // Created before the state is read, so that a change after that is not missed.
        let changed = watchers.changed();
        let Some(period) = watchers.period() else {
            if watchers.end() {
                return;
            }
            continue;
        };
        let Some(connection) = open_connection(&shared) else {
            changed.await;
            continue;
        };
        let receiving = pin!(receive(&shared, &connection, period, &watchers));
        tokio::select! {
            () = receiving => {}
            () = until_different(changed, &watchers, period, &connection) => {}
        }
    }
}

/// Waits until the stream must end: the shortest period has changed, or the connection takes no requests any more.
async fn until_different(
    first: Notified<'_>,
    watchers: &ReportWatchers,
    period: Duration,
    connection: &Connection,
) {
    let is_same = || watchers.period() == Some(period) && connection.is_open();
    first.await;
    loop {
        let changed = watchers.changed();
        if !is_same() {
            return;
        }
        changed.await;
    }
}

fn open_connection(shared: &SubchannelShared) -> Option<Arc<Connection>> {
    let SubchannelState::Ready(connections) = shared.state() else {
        return None;
    };
    connections.into_iter().find(|one| one.is_open())
}

/// Receives reports on one connection, as long as the machine wants. Never completes if the server does not have the
/// method.
async fn receive(
    shared: &SubchannelShared,
    connection: &Arc<Connection>,
    period: Duration,
    watchers: &ReportWatchers,
) {
    let epoch = tokio::time::Instant::now();
    let now = || Instant::from_epoch(epoch.elapsed());
    let mut machine = ReportStream::new(now());
    while !machine.is_stopped() {
        if let Some(at) = machine.poll_timeout() {
            sleep_until(epoch + at.since_epoch()).await;
            machine.handle_timeout(now());
            continue;
        }
        let address = shared.address;
        let on_report = |report: &OrcaLoadReport| {
            machine.handle_report();
            watchers.report(report);
        };
        let status = stream(connection, request(address, period), on_report).await;
        tracing::debug!(target: "oxds::subchannel", %address, %status, "stream of load reports ended");
        let code = u32::try_from(i32::from(status.code())).unwrap_or_default();
        machine.handle_end(now(), code, random());
    }
    // gRFC A51: the stream is not opened again on this connection.
    tracing::warn!(
        target: "oxds::subchannel", address = %shared.address,
        "no load reports out of band: the endpoint does not implement xds.service.orca.v3.OpenRcaService"
    );
    std::future::pending::<()>().await;
}

fn request(address: std::net::SocketAddr, period: Duration) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::Whole(report_request(period)));
    *request.method_mut() = http::Method::POST;
    let uri = Uri::builder()
        .scheme("http")
        .authority(address.to_string())
        .path_and_query(STREAM_METHOD);
    *request.uri_mut() = uri.build().unwrap_or_default();
    let headers = request.headers_mut();
    let grpc = HeaderValue::from_static("application/grpc");
    headers.insert(CONTENT_TYPE, grpc);
    headers.insert(TE, HeaderValue::from_static("trailers"));
    request
}

/// Receives the reports of one stream. Returns its status.
async fn stream(
    connection: &Arc<Connection>,
    mut request: Request<RequestBody>,
    mut on_report: impl FnMut(&OrcaLoadReport),
) -> Status {
    // The stream counts as an RPC, so that it does not take the place of one at MAX_CONCURRENT_STREAMS.
    let mut in_flight = connection.begin();
    let response = match connection.sender().send(&mut request).await {
        Ok(response) => response,
        Err(error) => return Status::unavailable(format!("{error:?}")),
    };
    if !non_grpc::is_grpc(&response) {
        let code = status::code_of_http(response.status());
        return Status::new(code, "the response is not gRPC");
    }
    if let Some(status) = Status::from_header_map(response.headers()) {
        in_flight.end(CallOutcome::NotOk);
        return status;
    }
    let mut body = response.into_body();
    let mut reader = ReportReader::default();
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return status::of_transport(&error),
            None => return Status::unknown("the stream ended without a status"),
        };
        match frame.into_data() {
            Ok(data) => {
                if let Err(error) = read(&mut reader, &data, &mut on_report) {
                    return error;
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                in_flight.end(outcome_of(Some(&trailers)));
                return of_trailers(&trailers);
            }
        }
    }
}

fn read(
    reader: &mut ReportReader,
    data: &Bytes,
    on_report: &mut impl FnMut(&OrcaLoadReport),
) -> Result<(), Status> {
    reader.push(data);
    while let Some(report) = reader
        .take()
        .map_err(|error| Status::internal(error.to_string()))?
    {
        on_report(&report);
    }
    Ok(())
}

fn of_trailers(trailers: &HeaderMap) -> Status {
    let unknown = || Status::new(Code::Unknown, "the stream ended without a status");
    Status::from_header_map(trailers).unwrap_or_else(unknown)
}
