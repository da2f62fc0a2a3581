//! Tests of the HTTP/2 streams that requests use: frames, windows, ends and resets, as the backend sees them.

mod windows;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use oxds_channel::testing::{Call, Script, call, cluster, config};
use oxds_channel::{Keepalive, Pool, ResponseBody, XdsChannel};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tower_service::Service;

use crate::raw;
use crate::support::{SOON, backends, builder, call_once, channel, eventually};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

type FrameResult = Result<Frame<Bytes>, Status>;

fn serve_by(script: &Script, backend: SocketAddr) {
    let one = cluster("one", &[&[("here", 1, &[backend])]], 0);
    script.set(config(ALL, vec![one]));
}

/// Returns a channel to one backend.
fn channel_to(backend: SocketAddr) -> (Script, XdsChannel) {
    let (script, channel) = channel();
    serve_by(&script, backend);
    (script, channel)
}

/// Starts an HTTP/2 server that runs `serve` for each request.
async fn server<F: Future<Output = ()> + Send + 'static>(
    settings: h2::server::Builder,
    serve: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (serve, settings) = (Arc::clone(&serve), settings.clone());
            tokio::spawn(async move {
                let Ok(mut connection) = settings.handshake(socket).await else {
                    return;
                };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(serve(request, respond));
                }
            });
        }
    });
    address
}

fn grpc_head() -> Response<()> {
    let mut response = Response::new(());
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", grpc);
    response
}

fn ok_trailers() -> HeaderMap {
    let status = (
        "grpc-status".parse().unwrap(),
        HeaderValue::from_static("0"),
    );
    HeaderMap::from_iter([status])
}

/// Sends the head of a response, and the status OK.
fn answer(respond: &mut SendResponse<Bytes>) {
    let mut stream = respond.send_response(grpc_head(), false).unwrap();
    stream.send_trailers(ok_trailers()).unwrap();
}

/// Reads a body to its end, and releases its window.
async fn drain(body: &mut RecvStream) -> Result<usize, h2::Error> {
    let mut size = 0;
    while let Some(data) = body.data().await {
        let length = data?.len();
        size += length;
        body.flow_control().release_capacity(length)?;
    }
    Ok(size)
}

fn post<B>(body: B) -> Request<B> {
    let request = Request::post("/a.B/C").header("content-type", "application/grpc");
    request.header("te", "trailers").body(body).unwrap()
}

/// A request body whose frames the test sends.
fn streamed() -> (
    mpsc::Sender<FrameResult>,
    StreamBody<ReceiverStream<FrameResult>>,
) {
    let (sender, frames) = mpsc::channel(1);
    (sender, StreamBody::new(ReceiverStream::new(frames)))
}

fn data(text: &'static str) -> FrameResult {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

async fn send<B>(channel: &XdsChannel, request: Request<B>) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    let response = timeout(SOON, channel.clone().call(request)).await;
    response.expect("the head of a response").unwrap()
}

fn status_of(response: &Response<ResponseBody>) -> Status {
    Status::from_header_map(response.headers()).expect("a failed call")
}

async fn next_data(body: &mut ResponseBody) -> Option<Result<Bytes, Status>> {
    let next = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
    let frame = timeout(SOON, next).await.expect("a frame");
    frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()))
}

/// Makes a call to a backend in bytes, and returns the frames of its request.
async fn frames_of<B>(body: B) -> Vec<(u8, u8, Bytes)>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_script, channel) = channel_to(listener.local_addr().unwrap());
    let recording = tokio::spawn(raw::record_request(listener));
    send(&channel, post(body)).await;
    recording.await.unwrap().unwrap()
}

#[tokio::test]
async fn unary_request_ends_with_its_only_data_frame() {
    let frames = frames_of(Full::from("message")).await;
    let data = (raw::DATA, raw::END_STREAM, Bytes::from("message"));
    assert_eq!(frames[1..], [data]);
}

#[tokio::test]
async fn empty_request_ends_with_its_headers() {
    let frames = frames_of(Full::<Bytes>::default()).await;
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].1 & raw::END_STREAM, raw::END_STREAM);
}

#[tokio::test]
async fn streamed_request_ends_with_its_last_data_frame() {
    let frames = ["one", "two", "three"].map(data);
    let frames = frames_of(StreamBody::new(tokio_stream::iter(frames))).await;
    let sent = |text: &'static str, flags| (raw::DATA, flags, Bytes::from(text));
    let expected = [
        sent("one", 0),
        sent("two", 0),
        sent("three", raw::END_STREAM),
    ];
    assert_eq!(frames[1..], expected);
}

#[tokio::test]
async fn request_trailers_end_the_stream() {
    let trailers = HeaderMap::from_iter([("x".parse().unwrap(), HeaderValue::from_static("1"))]);
    let frames = [data("one"), Ok(Frame::trailers(trailers))];
    let frames = frames_of(StreamBody::new(tokio_stream::iter(frames))).await;
    assert_eq!(frames[1], (raw::DATA, 0, Bytes::from("one")));
    assert_eq!(frames[2].0, raw::HEADERS);
    assert_eq!(frames[2].1 & raw::END_STREAM, raw::END_STREAM);
}

#[tokio::test]
async fn data_does_not_wait_for_the_next_frame() {
    // given a server that reports each piece of data
    let (seen, mut pieces) = mpsc::unbounded_channel();
    let backend = server(h2::server::Builder::new(), move |request, mut respond| {
        let seen = seen.clone();
        async move {
            let mut body = request.into_body();
            while let Some(Ok(data)) = body.data().await {
                seen.send(data).unwrap();
            }
            answer(&mut respond);
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    let (sender, body) = streamed();
    let response = tokio::spawn(async move { send(&channel, post(body)).await });
    // then each piece arrives before the test sends the next one
    for text in ["one", "two"] {
        sender.send(data(text)).await.unwrap();
        let piece = timeout(SOON, pieces.recv()).await.unwrap();
        assert_eq!(piece.unwrap(), text);
    }
    drop(sender);
    let body = response.await.unwrap().into_body().collect().await;
    assert_eq!(body.unwrap().trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn request_is_sent_while_only_the_head_is_awaited() {
    // given a server that answers only after the whole request
    let backend = server(
        h2::server::Builder::new(),
        |request, mut respond| async move {
            assert_eq!(drain(&mut request.into_body()).await.unwrap(), 3 * 50);
            answer(&mut respond);
        },
    )
    .await;
    let (_script, channel) = channel_to(backend);
    let (sender, body) = streamed();
    tokio::spawn(async move {
        for _ in 0..50 {
            sender.send(data("one")).await.unwrap();
        }
    });
    send(&channel, post(body)).await;
}

#[tokio::test]
async fn request_is_sent_while_the_response_is_not_read() {
    // given a server that answers at once, and counts the request's bytes
    let received = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&received);
    let backend = server(h2::server::Builder::new(), move |request, mut respond| {
        let received = Arc::clone(&counting);
        async move {
            let mut stream = respond.send_response(grpc_head(), false).unwrap();
            let mut body = request.into_body();
            while let Some(Ok(data)) = body.data().await {
                received.fetch_add(data.len(), Ordering::SeqCst);
            }
            stream.send_trailers(ok_trailers()).unwrap();
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    let (sender, body) = streamed();
    // when the caller only writes
    let response = send(&channel, post(body)).await;
    for _ in 0..50 {
        sender.send(data("one")).await.unwrap();
    }
    eventually(|| received.load(Ordering::SeqCst) == 150).await;
    drop(sender);
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn dropped_response_cancels_request_and_stream() {
    // given a server that reports how the request ended
    let (seen, mut ends) = mpsc::unbounded_channel();
    let backend = server(h2::server::Builder::new(), move |request, mut respond| {
        let seen = seen.clone();
        async move {
            let _stream = respond.send_response(grpc_head(), false).unwrap();
            let end = drain(&mut request.into_body()).await;
            seen.send(end.unwrap_err().reason()).unwrap();
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    let (sender, body) = streamed();
    let response = send(&channel, post(body)).await;
    drop(response);
    timeout(SOON, sender.closed()).await.unwrap();
    let end = timeout(SOON, ends.recv()).await.unwrap();
    assert_eq!(end.unwrap(), Some(Reason::CANCEL));
}

#[tokio::test]
async fn failed_request_body_is_the_status_of_the_rpc() {
    // given a server that answers a request only on command, and reports how it ended
    let (seen, mut ends) = mpsc::unbounded_channel();
    let backend = server(h2::server::Builder::new(), move |request, mut respond| {
        let seen = seen.clone();
        async move {
            let early = request.headers().contains_key("x-early");
            let stream = early.then(|| respond.send_response(grpc_head(), false).unwrap());
            let end = drain(&mut request.into_body()).await;
            seen.send(end.unwrap_err().reason()).unwrap();
            drop(stream);
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    // when the body fails before the head of the response
    let (sender, body) = streamed();
    sender.send(data("one")).await.unwrap();
    let failing = tokio::spawn(async move {
        let failure = Err(Status::data_loss("disk"));
        sender.send(failure).await.unwrap();
    });
    let status = status_of(&send(&channel, post(body)).await);
    failing.await.unwrap();
    assert_eq!((status.code(), status.message()), (Code::DataLoss, "disk"));
    // and when it fails after that
    let (sender, body) = streamed();
    let mut request = post(body);
    let header = HeaderValue::from_static("1");
    request.headers_mut().insert("x-early", header);
    let mut response = send(&channel, request).await.into_body();
    sender.send(Err(Status::data_loss("disk"))).await.unwrap();
    let status = next_data(&mut response).await.unwrap().unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::DataLoss, "disk"));
    // then the server sees both as cancelled
    for _ in 0..2 {
        let end = timeout(SOON, ends.recv()).await.unwrap();
        assert_eq!(end.unwrap(), Some(Reason::CANCEL));
    }
}

#[tokio::test]
async fn early_response_ends_an_unfinished_request() {
    // given a server that answers without reading, and needs no more of the request
    let backend = server(
        h2::server::Builder::new(),
        |request, mut respond| async move {
            // h2 resets the stream with NO_ERROR when nothing refers to it any more.
            answer(&mut respond);
            drop(request);
        },
    )
    .await;
    let (_script, channel) = channel_to(backend);
    let (sender, body) = streamed();
    let body = send(&channel, post(body)).await.into_body().collect();
    let body = timeout(SOON, body).await.unwrap().unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    timeout(SOON, sender.closed()).await.unwrap();
}

#[tokio::test]
async fn reset_codes_map_to_grpc_codes() {
    for (reason, code) in [
        (Reason::CANCEL, Code::Cancelled),
        (Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
        (Reason::INADEQUATE_SECURITY, Code::PermissionDenied),
        (Reason::INTERNAL_ERROR, Code::Internal),
        (Reason::PROTOCOL_ERROR, Code::Internal),
        (Reason::HTTP_1_1_REQUIRED, Code::Unavailable),
    ] {
        let backend = server(
            h2::server::Builder::new(),
            move |request, mut respond| async move {
                // The reset comes before, or after the head of the response.
                if request.headers().contains_key("x-early") {
                    respond
                        .send_response(grpc_head(), false)
                        .unwrap()
                        .send_reset(reason);
                } else {
                    respond.send_reset(reason);
                }
            },
        )
        .await;
        let (_script, channel) = channel_to(backend);
        let status = status_of(&send(&channel, post(Full::from("late"))).await);
        assert_eq!(status.code(), code, "{reason:?}: {status}");
        let mut early = post(Full::from("early"));
        let header = HeaderValue::from_static("1");
        early.headers_mut().insert("x-early", header);
        let response = send(&channel, early).await;
        let status = match Status::from_header_map(response.headers()) {
            Some(status) => status,
            None => response.into_body().collect().await.unwrap_err(),
        };
        assert_eq!(status.code(), code, "{reason:?}: {status}");
    }
}

#[tokio::test]
async fn refused_stream_is_sent_again_a_few_times() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&requests);
    let backend = server(h2::server::Builder::new(), move |_, mut respond| {
        counting.fetch_add(1, Ordering::SeqCst);
        async move { respond.send_reset(Reason::REFUSED_STREAM) }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(requests.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn oversized_response_headers_fail_only_their_call() {
    let backend = server(
        h2::server::Builder::new(),
        |request, mut respond| async move {
            let mut head = grpc_head();
            if request.headers().contains_key("x-long") {
                let long = HeaderValue::try_from("x".repeat(20_000)).unwrap();
                head.headers_mut().insert("x-long", long);
            }
            let mut stream = respond.send_response(head, false).unwrap();
            // The client may have reset the stream already.
            let _ = stream.send_trailers(ok_trailers());
        },
    )
    .await;
    let (_script, channel) = channel_to(backend);
    let mut long = post(Full::from("long"));
    let header = HeaderValue::from_static("1");
    long.headers_mut().insert("x-long", header);
    let status = status_of(&send(&channel, long).await);
    assert_eq!(status.code(), Code::Internal, "{status}");
    let body = send(&channel, post(Full::from("short"))).await.into_body();
    let body = body.collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn connection_headers_do_not_fail_a_call() {
    let [backend] = backends().await;
    let (_script, channel) = channel_to(backend.address());
    let mut headers = HeaderMap::new();
    headers.insert("connection", HeaderValue::from_static("close"));
    let request = Call {
        headers,
        ..Call::default()
    };
    call(&channel, request).await.unwrap();
}

#[tokio::test]
async fn a8_unanswered_ping_ends_the_calls() {
    // given a backend that reads, and sends nothing after its SETTINGS
    let backend = raw::RawBackend::start(|_| raw::GoAway::silent()).await;
    let keepalive = Keepalive::new(Duration::from_millis(50), Duration::from_millis(50));
    let (script, channel) =
        Script::channel(builder().pool(Pool::with_keepalive(keepalive))).unwrap();
    serve_by(&script, backend.address());
    // then a call without a deadline ends
    let status = timeout(SOON, call_once(&channel)).await.unwrap();
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("keepalive ping"), "{status}");
    assert!(backend.pings() > 0);
}

#[tokio::test]
async fn a8_answered_pings_keep_a_slow_call() {
    // given a backend that answers pings, and a request after ten of them
    let backend = raw::RawBackend::start(|_| raw::GoAway::never().after_pings(10)).await;
    let keepalive = Keepalive::new(Duration::from_millis(20), SOON);
    let (script, channel) =
        Script::channel(builder().pool(Pool::with_keepalive(keepalive))).unwrap();
    serve_by(&script, backend.address());
    call_once(&channel).await.unwrap();
    assert!(backend.pings() >= 10, "{}", backend.pings());
}

#[tokio::test]
async fn a105_rpc_that_stops_waiting_is_not_sent() {
    // given a server that allows one stream, and answers when the test lets it
    let (requests, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (counting, waiting) = (Arc::clone(&requests), Arc::clone(&gate));
    let mut settings = h2::server::Builder::new();
    settings.max_concurrent_streams(1);
    let backend = server(settings, move |_, mut respond| {
        counting.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&waiting);
        async move {
            gate.acquire().await.unwrap().forget();
            answer(&mut respond);
        }
    })
    .await;
    let (_script, channel) = channel_to(backend);
    let first = tokio::spawn({
        let channel = channel.clone();
        async move { send(&channel, post(Full::from("first"))).await }
    });
    eventually(|| requests.load(Ordering::SeqCst) == 1).await;
    // when a second call reaches its deadline while it waits for a stream
    let hurried = Call {
        timeout: Some(Duration::from_millis(50)),
        ..Call::default()
    };
    let status = call(&channel, hurried).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    // then the server never sees it
    gate.add_permits(2);
    first.await.unwrap();
    send(&channel, post(Full::from("third"))).await;
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
