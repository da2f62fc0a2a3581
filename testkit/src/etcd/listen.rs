//! Sockets of a member: accepted, served, counted, and closed all at once.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::member::Member;
use super::service::answer;

/// Serves until aborted, which closes the port and every connection.
pub(super) fn serve(listener: TcpListener, member: Arc<Member>) -> AbortHandle {
    let accepting = async move {
        // Aborts its tasks when dropped.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                    connections.spawn(connection(socket, Open::new(Arc::clone(&member))));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    };
    tokio::spawn(accepting).abort_handle()
}

async fn connection(socket: TcpStream, open: Open) {
    let mut silence = open.0.is_silent.subscribe();
    // A call runs in a task of its own, which ends a moment after its connection. Until then it could still take
    // effect, so the connection counts as open.
    let open = Arc::new(open);
    let service = service_fn(move |request| {
        let open = Arc::clone(&open);
        async move { Ok::<_, Infallible>(answer(request, Arc::clone(&open.0)).await) }
    });
    let serving =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service);
    tokio::pin!(serving);
    loop {
        let is_silent = *silence.borrow_and_update();
        tokio::select! {
            // A silent member is like a stopped one: the socket stays open, and nothing is read or written.
            _ = &mut serving, if !is_silent => return,
            _ = silence.changed() => {}
        }
    }
}

/// Counts a connection until it and its calls have ended.
struct Open(Arc<Member>);

impl Open {
    fn new(member: Arc<Member>) -> Self {
        member.activity.send_modify(|activity| {
            activity.accepted += 1;
            activity.connections += 1;
        });
        Self(member)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let activity = &self.0.activity;
        activity.send_modify(|activity| activity.connections -= 1);
    }
}
