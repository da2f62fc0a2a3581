//! Tests of subchannels against real sockets.

use std::time::Duration;

use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use oxds_net::transport::DialError;

use super::*;
use crate::pool::Pool;
use crate::stream::{Connection, RequestBody, SendError};
use crate::testing::EchoBackend;

const SOON: Duration = Duration::from_secs(10);

struct Watched {
    watch: StateWatch,
    changes: UnboundedReceiver<StateChanged>,
}

impl Watched {
    fn new(address: SocketAddr) -> Self {
        let (sender, changes) = unbounded_channel();
        let subchannel = Subchannel::spawn(address, Security::Plaintext, Keepalive::default());
        let watch = subchannel.watch(7, sender);
        Self { watch, changes }
    }

    fn subchannel(&self) -> &Arc<Subchannel> {
        self.watch.subchannel()
    }

    async fn until(&mut self, wanted: impl Fn(&SubchannelState) -> bool) -> SubchannelState {
        timeout(SOON, async {
            loop {
                let state = self.subchannel().state();
                if wanted(&state) {
                    return state;
                }
                assert_eq!(self.changes.recv().await.unwrap().token, 7);
            }
        })
        .await
        .expect("the state is reached")
    }

    async fn ready(&mut self) -> Connections {
        self.subchannel().connect();
        match self
            .until(|state| matches!(state, SubchannelState::Ready(_)))
            .await
        {
            SubchannelState::Ready(connections) => connections,
            other => panic!("{other:?}"),
        }
    }
}

async fn eventually(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, wait)
        .await
        .expect("the condition holds in the end");
}

async fn call(connection: &Arc<Connection>) -> Result<(), SendError> {
    let _in_flight = connection.begin();
    let mut request = http::Request::post("http://test/echo.Echo/Call")
        .body(RequestBody::Whole(bytes::Bytes::new()))
        .unwrap();
    let response = connection.sender().send(&mut request).await?;
    let body = response.into_body().collect().await;
    body.map(drop).map_err(SendError::Failed)
}

#[tokio::test]
async fn server_preface_makes_subchannel_ready() {
    let backend = EchoBackend::start().await.unwrap();
    let mut endpoint = Watched::new(backend.address());
    assert!(matches!(
        endpoint.subchannel().state(),
        SubchannelState::Idle
    ));
    let connections = endpoint.ready().await;
    call(&connections[0]).await.unwrap();
    assert_eq!(backend.calls(), 1);
}

#[tokio::test]
async fn listener_without_preface_fails_the_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut endpoint = Watched::new(listener.local_addr().unwrap());
    endpoint.subchannel().connect();
    let (silent, _) = listener.accept().await.unwrap();
    assert!(matches!(
        endpoint.subchannel().state(),
        SubchannelState::Connecting
    ));
    drop(silent);
    let state = endpoint
        .until(|state| matches!(state, SubchannelState::TransientFailure(_)))
        .await;
    let SubchannelState::TransientFailure(error) = state else {
        unreachable!()
    };
    assert!(matches!(error, DialError::NoPreface), "{error}");
}

#[tokio::test]
async fn killed_backend_fails_and_reconnects_after_restart() {
    let backend = EchoBackend::start().await.unwrap();
    let mut endpoint = Watched::new(backend.address());
    endpoint.ready().await;
    backend.kill();
    endpoint
        .until(|state| matches!(state, SubchannelState::Idle))
        .await;
    endpoint.subchannel().connect();
    endpoint
        .until(|state| matches!(state, SubchannelState::TransientFailure(_)))
        .await;
    backend.restart().await.unwrap();
    endpoint
        .until(|state| matches!(state, SubchannelState::Idle))
        .await;
    let connections = endpoint.ready().await;
    call(&connections[0]).await.unwrap();
}

#[tokio::test]
async fn dropped_subchannel_keeps_connection_until_rpc_ends() {
    let backend = EchoBackend::start().await.unwrap();
    backend.set_delay(Duration::from_millis(200));
    let mut endpoint = Watched::new(backend.address());
    let connection = endpoint.ready().await.remove(0);
    let rpc = tokio::spawn(async move { call(&connection).await });
    eventually(|| backend.calls() == 1).await;
    drop(endpoint);
    rpc.await.unwrap().unwrap();
    eventually(|| backend.connections() == 0).await;
}

#[tokio::test]
async fn full_connection_opens_another() {
    let backend = EchoBackend::start().await.unwrap();
    backend.set_max_streams(2);
    let mut endpoint = Watched::new(backend.address());
    let first = endpoint.ready().await.remove(0);
    assert!(first.has_room());
    let _calls = [first.begin(), first.begin()];
    assert!(!first.has_room());
    endpoint.subchannel().grow();
    endpoint
        .until(|state| matches!(state, SubchannelState::Ready(open) if open.len() == 2))
        .await;
    // The second connection still has room: no third is opened.
    endpoint.subchannel().grow();
    endpoint.subchannel().connect();
    eventually(|| backend.connections() == 2).await;
}

fn streaming_request() -> http::Request<RequestBody> {
    let body = http_body_util::StreamBody::new(tokio_stream::pending::<
        Result<http_body::Frame<bytes::Bytes>, tonic::Status>,
    >());
    let body = RequestBody::take(tonic::body::Body::new(body)).unwrap();
    http::Request::post("http://test/echo.Echo/Call")
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a6_request_on_ended_connection_is_returned() {
    let backend = EchoBackend::start().await.unwrap();
    let mut endpoint = Watched::new(backend.address());
    let connection = endpoint.ready().await.remove(0);
    backend.kill();
    eventually(|| !connection.is_open()).await;
    // Also a streaming request can be sent elsewhere, because nothing of it was sent.
    let sent = connection.sender().send(&mut streaming_request()).await;
    assert!(matches!(
        sent,
        Err(SendError::Unsent(RequestBody::Stream(_)))
    ));
}

#[tokio::test]
async fn a105_goaway_returns_requests_that_wait() {
    let backend = EchoBackend::start().await.unwrap();
    backend.set_max_streams(1);
    // The first call does not end before the test does.
    backend.set_delay(Duration::from_secs(600));
    let mut endpoint = Watched::new(backend.address());
    let connection = endpoint.ready().await.remove(0);
    let first = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { call(&connection).await }
    });
    eventually(|| backend.calls() == 1).await;
    let waiting = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { call(&connection).await }
    });
    eventually(|| connection.in_flight() == 2).await;
    backend.drain();
    assert!(matches!(waiting.await.unwrap(), Err(SendError::Unsent(_))));
    assert!(!first.is_finished());
    first.abort();
}

#[tokio::test]
async fn pool_shares_subchannel_until_last_user_drops_it() {
    let backend = EchoBackend::start().await.unwrap();
    let pool = Pool::new();
    let one = pool.subchannel(backend.address(), &Security::Plaintext);
    let two = pool
        .clone()
        .subchannel(backend.address(), &Security::Plaintext);
    assert!(Arc::ptr_eq(&one, &two));
    let before = Arc::downgrade(&one);
    drop((one, two));
    assert!(before.upgrade().is_none());
}
