//! Long polls: an answer at once, or after a change.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oxds_core::session::TransmitResponse;
use oxds_types::ApiVersion;
use oxds_types::discovery::{ControlPlane, DiscoveryResponse};
use prost::Message as _;

use super::request::FetchRequest;
use crate::cache::View;
use crate::calls::CallError;
use crate::clients::{HandledPoll, OpenPoll, PollKind};
use crate::context::Context;

/// Result of a poll.
#[derive(Debug)]
pub(super) enum Polled {
    Response(DiscoveryResponse),
    /// The client has the current version, or has rejected it, and nothing changed in time.
    NotModified(OpenPoll),
    /// No configuration is loaded, not even an empty one (S-26).
    NotLoaded,
}

/// Returns the answer at once if the client has another version, or else after a change within `hold`.
pub(super) async fn poll(
    context: &Context,
    request: &FetchRequest,
    hold: Duration,
) -> Result<Polled, CallError> {
    let now = context.server.clock.now();
    let view = view(context, request);
    let (polls, report) = (&context.clients.polls, request.report());
    let (open, handled) = polls.open(now, request.of_client(&view), report);
    note_answer(context, request, &handled);
    let transmitted = tokio::select! {
        // First of all the answer: a poll with a hold of zero gets what is there.
        biased;
        transmitted = transmit(context, request, &open) => Some(transmitted),
        () = tokio::time::sleep(hold) => None,
        () = context.server.closing.cancelled() => None,
    };
    let Some(transmitted) = transmitted else {
        return Ok(if view.load().is_loaded() {
            Polled::NotModified(open)
        } else {
            Polled::NotLoaded
        });
    };
    context.cache.notifier().notify();
    let response = response(context, request, &transmitted)?;
    if request.kind == PollKind::Fetch {
        open.keep(&response);
    }
    Ok(Polled::Response(response))
}

/// Returns the complete state that the client has: the one that it accepted, or, if it has rejected nothing, the one
/// that is served. `None` if it has rejected what is served, and accepted nothing before.
pub(super) fn current(
    context: &Context,
    request: &FetchRequest,
    open: &OpenPoll,
) -> Option<DiscoveryResponse> {
    if let Some(state) = open.state() {
        return Some(state);
    }
    if open.has_nacked() {
        return None;
    }
    // The client accepted it from another replica, or before a restart.
    let (config, now) = (&context.config, context.server.clock.now());
    let (mut session, _) = request.subscription.open("", config, now).ok()?;
    let transmitted = session.poll_transmit(now, &view(context, request).load())?;
    response(context, request, &transmitted).ok()
}

fn view(context: &Context, request: &FetchRequest) -> Arc<View> {
    match &request.node {
        Some(node) => context.cache.view(node),
        None => Arc::clone(context.cache.root()),
    }
}

/// Passes the ACK or NACK of the last response to the metrics and to the rollback.
fn note_answer(context: &Context, request: &FetchRequest, handled: &HandledPoll) {
    for event in &handled.events {
        context.server.metrics.event(event);
    }
    let node = request.node.as_ref().map_or("", |node| &node.id);
    let now = context.server.clock.now();
    context.rollback.nacked(now, node, &handled.nacks);
    // A poll that repeats the last one changes nothing that readers of the status wait for.
    if handled.is_new || !handled.events.is_empty() {
        context.cache.notifier().notify();
    }
}

/// Waits for the next response. Cancel-safe: a response that is due stays due until it is returned.
async fn transmit(context: &Context, request: &FetchRequest, open: &OpenPoll) -> TransmitResponse {
    let (cache, clock) = (&context.cache, context.server.clock);
    let subscription = &request.subscription;
    loop {
        // Before the view: a change of groups from here on is seen below.
        let memberships = cache.memberships();
        let view = view(context, request);
        let mut watcher = match &request.node {
            Some(node) => cache.register_session(node),
            None => view.register_session(),
        };
        watcher.watch(&subscription.resource_type, request.interests.clone());
        let next = std::future::poll_fn(|cx| {
            // Before the snapshot is loaded: what is published from here on wakes this task again.
            watcher.register(cx.waker());
            if cache.memberships() != memberships {
                // S-74: the node may see another view from now on.
                return Poll::Ready(None);
            }
            let transmitted = open.transmit(clock.now(), watcher.view());
            if subscription.api == ApiVersion::V2 {
                let snapshot = watcher.view().load();
                let log = &context.not_representable;
                log.log(&snapshot, &subscription.resource_type);
            }
            match transmitted {
                Some(transmitted) => Poll::Ready(Some(transmitted)),
                None => Poll::Pending,
            }
        });
        if let Some(transmitted) = next.await {
            return transmitted;
        }
    }
}

/// Makes the response of a poll. Its nonce is its version, which is the same on every replica and after every restart
/// (S-29).
fn response(
    context: &Context,
    request: &FetchRequest,
    transmitted: &TransmitResponse,
) -> Result<DiscoveryResponse, CallError> {
    let sent = DiscoveryResponse::decode(transmitted.frame.message())?;
    let identifier = context.config.identifier.clone();
    Ok(DiscoveryResponse {
        version_info: transmitted.version.to_string(),
        nonce: transmitted.version.to_string(),
        type_url: request.subscription.type_url.clone(),
        control_plane: identifier.map(|identifier| ControlPlane { identifier }),
        resources: sent.resources,
        ..DiscoveryResponse::default()
    })
}
