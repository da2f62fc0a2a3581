//! The future that drives a connection: frames in and out, keepalive, and the end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Ping, PingPong};
use oxds_core::keepalive::{Keepalive, KeepaliveAction};
use oxds_core::time::Instant;
use oxds_net::transport::{self, GoingAway, Http2Socket, ReadActivity};
use tokio::time::{Sleep, sleep_until};

use super::connection::Connection;
use crate::metrics::DisconnectReason;

/// Drives a connection; completes when it is closed.
pub(crate) struct ConnectionDriver {
    /// `None` after its end.
    h2: Option<h2::client::Connection<Http2Socket, Bytes>>,
    going_away: GoingAway,
    /// Reason of the end, if it was not a GOAWAY.
    ended: DisconnectReason,
    keepalive: KeepaliveTimer,
    /// Weak, because the connection closes when the last handle is dropped.
    connection: Weak<Connection>,
}

/// The keepalive machine with its clock, timer and pings.
struct KeepaliveTimer {
    machine: Keepalive,
    activity: ReadActivity,
    pings: Option<PingPong>,
    /// A ping was sent, and its answer was not taken yet.
    awaits_pong: bool,
    /// Zero of the machine's clock.
    epoch: tokio::time::Instant,
    /// Created at the first use of the connection.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The server did not answer a ping.
struct Silent;

impl ConnectionDriver {
    pub(crate) fn new(
        mut h2: h2::client::Connection<Http2Socket, Bytes>,
        going_away: GoingAway,
        activity: ReadActivity,
        keepalive: transport::Keepalive,
    ) -> Self {
        let pings = h2.ping_pong();
        Self {
            h2: Some(h2),
            going_away,
            ended: DisconnectReason::Unknown,
            keepalive: KeepaliveTimer {
                machine: Keepalive::new(keepalive.interval, keepalive.timeout),
                activity,
                pings,
                awaits_pong: false,
                epoch: tokio::time::Instant::now(),
                timer: None,
            },
            connection: Weak::new(),
        }
    }

    /// Sets the connection that learns about the end.
    pub(crate) fn attach(&mut self, connection: &Arc<Connection>) {
        self.connection = Arc::downgrade(connection);
    }

    /// Drives the connection until it takes no more requests: it has ended, or goes away.
    pub(crate) async fn until_retired(&mut self) {
        if let Some(connection) = self.connection.upgrade() {
            poll_fn(|cx| {
                connection.set_driver(cx.waker());
                Poll::Ready(())
            })
            .await;
        }
        poll_fn(|cx| {
            let ended = Pin::new(&mut *self).poll(cx).is_ready();
            if ended || self.going_away.is_received() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        if let Some(connection) = self.connection.upgrade() {
            connection.retire();
        }
    }

    /// Returns the reason why the connection takes no more requests.
    pub(crate) fn reason(&self) -> DisconnectReason {
        // gRFC A94: the first reason counts, which is the GOAWAY.
        let code = self.going_away.code();
        code.map_or_else(
            || self.ended.clone(),
            |code| DisconnectReason::GoAway(code.into()),
        )
    }

    fn close(&mut self) {
        // Before h2 reports the end to the streams, so that they see the reason.
        if let Some(connection) = self.connection.upgrade() {
            connection.close();
        }
        self.h2 = None;
    }
}

impl Future for ConnectionDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        let Some(h2) = &mut driver.h2 else {
            return Poll::Ready(());
        };
        // The frames come first: they may have the answer to a ping whose time is over.
        if let Poll::Ready(ended) = Pin::new(h2).poll(cx) {
            if let Err(error) = ended {
                tracing::debug!(target: "oxds::subchannel", %error, "connection ended");
                driver.ended = DisconnectReason::of(&error);
            }
            driver.close();
            return Poll::Ready(());
        }
        let connection = &driver.connection;
        let has_calls = || {
            connection
                .upgrade()
                .is_some_and(|connection| connection.in_flight() > 0)
        };
        let Silent = ready!(driver.keepalive.poll(cx, has_calls));
        if let Some(connection) = connection.upgrade() {
            tracing::debug!(target: "oxds::subchannel", "connection ended: ping not answered");
            connection.set_silent();
        }
        driver.ended = DisconnectReason::TimedOut;
        driver.close();
        Poll::Ready(())
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.close();
    }
}

impl KeepaliveTimer {
    /// Completes when the server did not answer a ping.
    fn poll(&mut self, cx: &mut Context<'_>, has_calls: impl Fn() -> bool) -> Poll<Silent> {
        if self.activity.take() || self.machine.is_dormant() {
            self.machine.handle_activity(self.now());
            self.take_pong(cx);
        }
        while let Some(timeout) = self.machine.poll_timeout() {
            let end = self.epoch + timeout.since_epoch();
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
            if timer.deadline() != end {
                timer.as_mut().reset(end);
            }
            ready!(timer.as_mut().poll(cx));
            match self.machine.handle_timeout(self.now(), has_calls()) {
                KeepaliveAction::None => {}
                KeepaliveAction::Ping => self.ping(),
                KeepaliveAction::Close => return Poll::Ready(Silent),
            }
        }
        Poll::Pending
    }

    fn now(&self) -> Instant {
        Instant::from_epoch(self.epoch.elapsed())
    }

    fn ping(&mut self) {
        if let Some(pings) = &mut self.pings {
            // An error means that an earlier ping has no answer yet, or that the connection is closed: the frames after
            // that ping were enough until now.
            self.awaits_pong |= pings.send_ping(Ping::opaque()).is_ok();
        }
    }

    /// Takes the answer to a ping, if it is there, so that the next ping can be sent.
    fn take_pong(&mut self, cx: &mut Context<'_>) {
        if let Some(pings) = self.pings.as_mut().filter(|_| self.awaits_pong) {
            // Any byte shows that the server is alive, so the result has no further use.
            self.awaits_pong = pings.poll_pong(cx).is_pending();
        }
    }
}
