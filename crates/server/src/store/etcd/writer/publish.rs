//! The driver of a publish.

use std::future::pending;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;

use futures_util::FutureExt as _;
use oxds_core::time::Instant;
use oxds_etcd::PublishId;
use oxds_etcd::publisher::{
    MergedState, PublishError, PublishEvent, PublishOptions, PublishOutcome, Publisher, Wanted,
};
use tokio::time::{Instant as TokioInstant, sleep_until};

use super::super::client::Blame;
use super::failure;
use super::session::Session;

/// Something that a publish did besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishNotice {
    /// A publish that another writer had not finished was finished.
    Completed {
        /// The publish.
        publish: PublishId,
        /// User and machine of its writer.
        by: String,
    },
    /// The stage of a publish that never happened was deleted.
    Undone {
        /// The publish.
        publish: PublishId,
    },
    /// A member failed for the first time. The request is sent again, to the next member if there are several, until
    /// the machine gives up ([`PublishOptions::give_up_after`](oxds_etcd::publisher::PublishOptions)).
    MemberFailed {
        /// The member, and why it failed.
        cause: String,
    },
}

/// Returns a new id for a publish: 128 bits that are seeded by the operating system. Not a secret.
#[must_use]
pub fn publish_id() -> PublishId {
    let half = |at: u8| u128::from(RandomState::new().hash_one(at));
    PublishId(half(0) << 64 | half(1))
}

/// Publishes, and returns how that ended.
///
/// The session knows the number of members, so that of the options is not used.
///
/// `wanted` makes what is published, while the published state is read. Its `None` ends the publish with
/// [`PublishError::Invalid`], whatever etcd said. `judge` decides whether the state that would be published is valid,
/// after [`check`](super::check) for example; it may be asked again if another writer was faster. `notice` is called
/// for what happens besides.
///
/// # Errors
/// Nothing was published, unless the error says that the outcome is unknown.
///
/// # Cancel safety
/// The future may be dropped at any time, as the process may be killed: the published state is then the old or the new
/// one, and the next publish removes the rest (G-8).
pub async fn publish(
    session: &mut Session,
    options: PublishOptions,
    wanted: impl Future<Output = Option<Wanted>>,
    mut judge: impl FnMut(&MergedState) -> bool,
    mut notice: impl FnMut(PublishNotice),
) -> Result<PublishOutcome, PublishError> {
    let start = TokioInstant::now();
    let now = || Instant::from_epoch(start.elapsed());
    let members = session.members();
    let mut publisher = Publisher::reading(PublishOptions { members, ..options });
    let mut wanted = pin!(wanted);
    let mut is_made = false;
    if let Some(made) = wanted.as_mut().now_or_never() {
        publisher.handle_wanted(made.ok_or(PublishError::Invalid)?);
        is_made = true;
    }
    let mut has_failed = false;
    loop {
        while let Some(event) = publisher.poll_event() {
            match event {
                PublishEvent::Validate(state) => {
                    let is_valid = judge(&state);
                    publisher.handle_verdict(now(), is_valid);
                }
                PublishEvent::Completed { publish, by } => {
                    notice(PublishNotice::Completed { publish, by });
                }
                PublishEvent::Undone { publish } => notice(PublishNotice::Undone { publish }),
                PublishEvent::Done(outcome) => {
                    if !is_made {
                        wanted.await.ok_or(PublishError::Invalid)?;
                    }
                    return outcome;
                }
            }
        }
        let request = publisher.poll_transmit(now());
        let is_asked = request.is_some();
        let (limit, timeout) = (publisher.answer_limit(), publisher.poll_timeout());
        if is_made && !is_asked && timeout.is_none() {
            // The machine has an event, a request or a timer until it is done.
            return Err(PublishError::Etcd("internal error: stuck".to_owned()));
        }
        let next = async {
            match (request, timeout) {
                (Some(request), _) => Some(session.send(request, limit).await),
                (None, Some(until)) => {
                    sleep_until(start + until.since_epoch()).await;
                    None
                }
                (None, None) => pending().await,
            }
        };
        let mut next = pin!(next);
        let answer = loop {
            tokio::select! {
                biased;
                made = &mut wanted, if !is_made => {
                    publisher.handle_wanted(made.ok_or(PublishError::Invalid)?);
                    is_made = true;
                    // The request goes on.
                    if !is_asked {
                        break None;
                    }
                }
                answer = &mut next => break answer,
            }
        };
        match answer {
            Some(Ok(answer)) => publisher.handle_answer(now(), answer),
            Some(Err(error)) => {
                if !has_failed && error.blame() == Blame::Member {
                    has_failed = true;
                    let cause = error.to_string();
                    notice(PublishNotice::MemberFailed { cause });
                }
                publisher.handle_failure(now(), failure::of(&error));
            }
            None => {}
        }
    }
}
