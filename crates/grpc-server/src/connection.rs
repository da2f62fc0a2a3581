//! One connection: handshake, RPCs, drain.
//!
//! ```text
//!  ┌───────────┐ preface  ┌─────────┐ drain: GOAWAY  ┌──────────┐ last RPC, or grace period
//!  │ Handshake ├─────────►│ Serving ├───────────────►│ Draining ├─────────────────────────► closed
//!  └─────┬─────┘          └────┬────┘                └──────────┘
//!        │ timeout, too many   │ the client closes it
//!        └─────────────────────┴────────────────────────────────────────────────────────► closed
//! ```

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use oxds_client::channelz::CountedServer;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::call::{CallService, Connection};
use crate::handshake::Handshake;
use crate::security::{Opened, open};
use crate::serving::{Chain, Drain};
use crate::shared::Shared;
use crate::status::{Counted, ListenerState};

/// A connection that has a filter chain.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<ListenerState>,
    pub(crate) counted: CountedServer,
    pub(crate) chain: Arc<Chain>,
    pub(crate) drain: Drain,
    pub(crate) handshake: Handshake,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Accepted {
    /// Serves the connection until its end.
    pub(crate) async fn run(self, socket: TcpStream) {
        let Self {
            shared,
            state,
            counted,
            chain,
            mut drain,
            mut handshake,
            local,
            peer,
        } = self;
        let limit = shared.settings.handshake_timeout;
        let fallback = &shared.credentials.fallback;
        let opened = tokio::select! {
            opened = timeout(limit, open(socket, &chain.security, fallback)) => {
                opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            () = handshake.closed() => {
                let reason = "too many handshakes, or the server does not serve any more";
                Err(io::Error::other(reason))
            }
        };
        let Opened { io, identity } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                log_failure(&error, &state, peer);
                return;
            }
        };
        drop(handshake);
        let _open = Counted::new(&state, |state| &state.connections);
        let grace = shared.settings.drain_grace;
        let builder = http2(&shared);
        let connection = Connection::new(shared, counted, chain, (local, peer), identity);
        let service = CallService::new(connection);
        let mut serving = pin!(builder.serve_connection(TokioIo::new(io), service));
        let end = tokio::select! {
            end = &mut serving => end,
            () = drain.started() => {
                let _draining = Counted::new(&state, |state| &state.draining);
                serving.as_mut().graceful_shutdown();
                // RPCs that are not complete then are cancelled with the connection.
                match timeout(grace, &mut serving).await {
                    Ok(end) => end,
                    Err(_) => {
                        tracing::debug!(target: "oxds::grpc_server", %peer, "connection closed after the grace period");
                        return;
                    }
                }
            }
        };
        if let Err(error) = end {
            tracing::debug!(target: "oxds::grpc_server", %peer, %error, "connection failed");
        }
    }
}

/// Logs a handshake that failed. One that failed by the security of the connection is for operators.
fn log_failure(error: &io::Error, state: &ListenerState, peer: SocketAddr) {
    let (address, listener) = (state.address, &state.listener);
    if error.kind() == io::ErrorKind::InvalidData {
        tracing::warn!(target: "oxds::grpc_server", %address, %listener, %peer, %error, "connection closed in its handshake");
    } else {
        tracing::debug!(target: "oxds::grpc_server", %address, %listener, %peer, %error, "connection closed in its handshake");
    }
}

fn http2(shared: &Shared) -> http2::Builder<TokioExecutor> {
    let settings = &shared.settings;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.max_concurrent_streams);
    if let Some((interval, timeout)) = settings.keepalive {
        builder
            .keep_alive_interval(interval)
            .keep_alive_timeout(timeout);
    }
    builder
}
