//! From the client: its requests, one by one, as fast as it may.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use http_body::Body as _;
use oxds_core::session::Request;
use oxds_core::snapshot::Protocol;
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};
use prost::Message as _;
use tonic::Status;
use tracing::info;

use super::{BATCH, Stream};
use crate::discovery::error::CallError;

impl Stream {
    /// Hands every request that has arrived to the session, as fast as it may; ready when the stream ends.
    pub(super) fn read(&mut self, cx: &mut TaskContext<'_>) -> Poll<Status> {
        for _ in 0..BATCH {
            self.read_again = self.throttle.wait(self.context.server.clock.now());
            if self.read_again.is_some() {
                self.context.server.metrics.throttled();
                return Poll::Pending;
            }
            match ready!(self.read_one(cx)) {
                Err(refusal) => return Poll::Ready(refusal.status(&self.context.server.metrics)),
                Ok(true) => continue,
                Ok(false) => {}
            }
            match ready!(Pin::new(&mut self.requests).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data);
                    }
                }
                Some(Err(status)) => return Poll::Ready(Status::cancelled(status.to_string())),
                None if self.decoder.is_torn() => {
                    return Poll::Ready(CallError::Truncated.status(&self.context.server.metrics));
                }
                // The client has said all it has to say, and no acknowledgement can come any more.
                None => return Poll::Ready(Status::ok("")),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Handles the next request, if all of it has arrived, and it is known whom it is from.
    fn read_one(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<bool, CallError>> {
        let (mut request, mut node) = match self.naming.take() {
            Some(naming) => naming,
            None => {
                let Some(message) = self.decoder.next()? else {
                    return Poll::Ready(Ok(false));
                };
                self.throttle.pass(self.context.server.clock.now());
                let mut request = self.decode(message)?;
                self.context.server.metrics.request();
                let is_first = self.first_request.take().is_some();
                let node = is_first.then(|| self.observed.node(&mut request));
                match node.flatten() {
                    Some(node) => (request, node),
                    None => return Poll::Ready(self.handle(request).map(|()| true)),
                }
            }
        };
        match node.as_mut().poll(cx)? {
            Poll::Ready(node) => {
                *request.node_mut() = Some(node);
                Poll::Ready(self.handle(request).map(|()| true))
            }
            Poll::Pending => {
                self.naming = Some((request, node));
                Poll::Pending
            }
        }
    }

    fn decode(&self, message: Bytes) -> Result<Request, CallError> {
        let implied = |type_url: &mut String| {
            if let Some(url) = self.offer.type_url().filter(|_| type_url.is_empty()) {
                url.clone_into(type_url);
            }
        };
        match self.open.protocol {
            Protocol::Sotw => {
                let mut request = DiscoveryRequest::decode(message)?;
                implied(&mut request.type_url);
                Ok(request.into())
            }
            Protocol::Delta => {
                let mut request = DeltaDiscoveryRequest::decode(message)?;
                implied(&mut request.type_url);
                Ok(request.into())
            }
        }
    }

    fn handle(&mut self, mut request: Request) -> Result<(), CallError> {
        self.observed.request(&request)?;
        self.context.permit(&self.open, &mut request)?;
        let now = self.context.server.clock.now();
        let mut session = self.open.session();
        session.handle_request(now, request)?;
        if self.watcher.is_none() {
            let node = session.node();
            let id = node.map_or("", |node| &node.id);
            let cluster = node.map_or("", |node| &node.cluster);
            info!(stream = self.registration.id(), peer = %self.open.peer, id, cluster, "client");
            self.memberships = self.context.cache.memberships();
            let watcher = self
                .context
                .cache
                .register_session(node.unwrap_or(&Node::default()));
            self.open.set_view(Arc::clone(watcher.view()));
            self.watcher = Some(watcher);
        }
        drop(session);
        self.handle_events();
        Ok(())
    }
}
