//! The request side of a stream: reads at the permitted rate, decodes, and passes requests to the session.

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

use super::{BATCH, Stream, Watching};
use crate::calls::{Admitted, CallError, ClientLine, MemoryUse, cost};
use crate::metrics::protocol_name;

impl Stream {
    /// Passes every request that has arrived to the session, at the permitted rate. Ready when the stream ends.
    pub(super) fn read(&mut self, cx: &mut TaskContext<'_>) -> Poll<Status> {
        for _ in 0..BATCH {
            let now = self.context.server.clock.now();
            self.input.read_again = self.input.throttle.wait(now);
            if self.input.read_again.is_some() {
                self.context.server.metrics.throttled();
                return Poll::Pending;
            }
            match ready!(self.read_one(cx)) {
                Err(error) => return Poll::Ready(self.count(&error)),
                Ok(true) => continue,
                Ok(false) => {}
            }
            match ready!(Pin::new(&mut self.input.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.input.decoder.push(&data);
                        if let Err(error) = self.keep_input(0) {
                            return Poll::Ready(self.count(&error));
                        }
                    }
                }
                Some(Err(status)) => return Poll::Ready(Status::cancelled(status.to_string())),
                None if self.input.decoder.has_partial_message() => {
                    return Poll::Ready(self.count(&CallError::Truncated));
                }
                // The client has half-closed. It can send no ACK any more, so the stream has no purpose.
                None => return Poll::Ready(Status::ok("")),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Handles the next request once it has arrived and its node is known. Ready with `false` if more bytes are needed.
    fn read_one(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<bool, CallError>> {
        let (mut request, mut node) = match self.input.identifying.take() {
            Some(identifying) => identifying,
            None => {
                let Some(message) = self.input.decoder.next()? else {
                    return Poll::Ready(Ok(false));
                };
                let server = Arc::clone(&self.context.server);
                self.input.throttle.pass(server.clock.now());
                let limits = &server.limits;
                let decoded = cost::of_request(&message, self.open.protocol, limits)?;
                self.keep_input(decoded)?;
                let mut request = self.decode(message)?;
                server.metrics.request();
                let is_first = self.first_request.take().is_some();
                let node = is_first.then(|| self.observer.node(&mut request));
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
                self.input.identifying = Some((request, node));
                Poll::Pending
            }
        }
    }

    /// Decodes a request, and adds the type URL that the service implies (S-58).
    fn decode(&self, message: Bytes) -> Result<Request, CallError> {
        let add_implied = |type_url: &mut String| {
            let implied = self.service_scope.implied_type_url();
            if let Some(url) = implied.filter(|_| type_url.is_empty()) {
                url.clone_into(type_url);
            }
        };
        match self.open.protocol {
            Protocol::Sotw => {
                let mut request = DiscoveryRequest::decode(message)?;
                add_implied(&mut request.type_url);
                Ok(request.into())
            }
            Protocol::Delta => {
                let mut request = DeltaDiscoveryRequest::decode(message)?;
                add_implied(&mut request.type_url);
                Ok(request.into())
            }
        }
    }

    /// Passes a request to the hooks, to authorization, and to the session.
    fn handle(&mut self, mut request: Request) -> Result<(), CallError> {
        self.observer.request(&request)?;
        self.context
            .check_api_of(request.type_url(), &self.open.peer)?;
        self.context.permit(&self.open, &mut request)?;
        let server = Arc::clone(&self.context.server);
        let now = server.clock.now();
        let mut session = self.open.session();
        let versions = versions_of(&request);
        self.share.set(MemoryUse::Versions, versions)?;
        session.handle_request(now, request)?;
        if self.watching.is_none() {
            let node = session.node();
            let bytes = cost::of_node(node.unwrap_or(&Node::default()), &server.limits)?;
            self.share.set(MemoryUse::Node, bytes)?;
            let id = node.map_or("", |node| &node.id);
            let cluster = node.map_or("", |node| &node.cluster);
            let (stream, protocol) = (self.registration.id(), protocol_name(self.open.protocol));
            if let Some(Admitted { suppressed }) = server.log.admit(ClientLine::Identified, now) {
                info!(stream, peer = %self.open.peer, node = id, cluster, protocol, suppressed, "client connected");
            }
            let cache = &self.context.cache;
            // Read before the view is selected: a later change of the groups is then noticed.
            let memberships = cache.memberships();
            let watcher = cache.register_session(node.unwrap_or(&Node::default()));
            watcher.follow();
            self.open.set_watcher(&watcher);
            self.watching = Some(Watching {
                watcher,
                memberships,
            });
        }
        drop(session);
        // The request is used up; from here on its names count.
        self.keep_input(0)?;
        self.handle_events();
        Ok(())
    }

    /// Counts the bytes of requests that have arrived, and those of the request that is being handled.
    fn keep_input(&mut self, decoded: usize) -> Result<(), CallError> {
        let bytes = self.input.decoder.held() + decoded;
        Ok(self.share.set(MemoryUse::Request, bytes)?)
    }
}

/// Returns the bytes of the versions that a client claims to have. The session keeps them until it answers.
fn versions_of(request: &Request) -> usize {
    match request {
        Request::Sotw(_) => 0,
        Request::Delta(request) => {
            let versions = request.initial_resource_versions.iter();
            let cost = |(name, version): (&String, &String)| 256 + name.len() + version.len();
            versions.map(cost).sum()
        }
    }
}
