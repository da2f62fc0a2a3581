//! Long polls: an answer at once, or after a change.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oxds_types::ApiVersion;
use oxds_types::discovery::DiscoveryResponse;

use super::answer::Answer;
use super::request::FetchRequest;
use crate::cache::View;
use crate::discovery::clients::ClientPoll;
use crate::discovery::context::Context;
use crate::discovery::error::CallError;

/// Result of a poll.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Polled {
    Response(DiscoveryResponse),
    /// The client has the current version, and nothing changed in time.
    NotModified,
    /// No configuration is loaded, not even an empty one (S-26).
    NotLoaded,
}

/// Returns the answer at once if the client has another version, or else after a change within `hold`.
pub(super) async fn poll(
    context: &Context,
    request: &FetchRequest,
    hold: Duration,
) -> Result<Polled, CallError> {
    let view = view(context, request);
    handle_request(context, request, request.of_client(&view));
    // xDS protocol, "REST-JSON polling subscriptions": the nonce is optional, so only the version tells whether the client
    // has this answer (S-56).
    let is_new = |answer: &Answer| *answer.version.as_str() != *request.version;
    answer(context, request, &view, is_new, hold).await
}

/// Returns the current answer, even if the client has it. Waits up to `hold` for the first configuration.
pub(super) async fn poll_again(
    context: &Context,
    request: &FetchRequest,
    hold: Duration,
) -> Result<Polled, CallError> {
    let view = view(context, request);
    answer(context, request, &view, |_| true, hold).await
}

fn view(context: &Context, request: &FetchRequest) -> Arc<View> {
    match &request.node {
        Some(node) => context.cache.view(node),
        None => Arc::clone(context.cache.root()),
    }
}

/// Passes the ACK or NACK of the last response to the metrics and to the rollback.
fn handle_request(context: &Context, request: &FetchRequest, poll: ClientPoll<'_>) {
    let now = context.server.clock.now();
    let (version, error) = (&request.version, request.error.as_ref());
    let polls = &context.clients.polls;
    let Some(handled) = polls.handle_request(now, poll, version, error) else {
        return;
    };
    for event in &handled.events {
        context.server.metrics.event(event);
    }
    let node = request.node.as_ref().map_or("", |node| &node.id);
    context.rollback.nacked(now, node, &handled.nacks);
    context.cache.notifier().notify();
}

async fn answer(
    context: &Context,
    request: &FetchRequest,
    view: &Arc<View>,
    is_wanted: impl Fn(&Answer) -> bool,
    hold: Duration,
) -> Result<Polled, CallError> {
    let (polls, server) = (&context.clients.polls, &context.server);
    let client = request.of_client(view);
    let subscription = &request.subscription;
    let mut watcher = view.register_session();
    watcher.watch(&subscription.resource_type, request.interests.clone());
    let changed = std::future::poll_fn(|cx| {
        // Before the snapshot is loaded: what is published from here on wakes this task again.
        watcher.register(cx.waker());
        let snapshot = view.snapshot();
        if !snapshot.is_loaded() {
            return Poll::Pending;
        }
        let now = server.clock.now();
        let answer = match Answer::new(request, &context.config, now, &snapshot) {
            Ok(answer) => answer,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if subscription.api == ApiVersion::V2 {
            context
                .not_representable
                .log(&snapshot, &subscription.resource_type);
        }
        if is_wanted(&answer) {
            return Poll::Ready(Ok((answer, snapshot)));
        }
        polls.record_current(now, client, answer.version, &snapshot);
        Poll::Pending
    });
    let (answer, snapshot) = tokio::select! {
        // First of all the answer: a poll with a hold of zero gets what is there.
        biased;
        answered = changed => answered?,
        () = tokio::time::sleep(hold) => return Ok(unchanged(view)),
        () = server.closing.cancelled() => return Ok(unchanged(view)),
    };
    let now = server.clock.now();
    polls.record_sent(now, client, answer.version, &snapshot);
    context.cache.notifier().notify();
    let identifier = context.config.identifier.as_deref();
    Ok(Polled::Response(answer.into_response(request, identifier)))
}

fn unchanged(view: &View) -> Polled {
    if view.load().is_loaded() {
        Polled::NotModified
    } else {
        Polled::NotLoaded
    }
}
