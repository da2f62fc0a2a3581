//! One read of all that is published, as `oxds get` does.

use std::collections::BTreeMap;

use oxds_etcd::published::{PublishedLane, PublishedRead, ReadError};
use oxds_etcd::{Prefix, Segment};

use super::super::client::{Blame, EtcdError, Reason};
use super::session::Session;

/// State of all lanes.
pub type Published = BTreeMap<Segment, PublishedLane>;

/// Reason why the published state is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnreadableStore {
    /// etcd does not answer, or refuses the read.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The answer cannot be used.
    #[error(transparent)]
    Content(#[from] ReadError),
}

/// Reads all lanes at one revision. Each member is tried once.
///
/// # Errors
/// No member answers, or the answer cannot be used.
///
/// # Cancel safety
/// Dropping the future ends the read.
pub async fn read(session: &mut Session, prefix: &Prefix) -> Result<Published, UnreadableStore> {
    let mut left = session.members();
    loop {
        let error = match read_once(session, prefix).await {
            Ok(published) => return Ok(published),
            Err(error) => error,
        };
        left = left.saturating_sub(1);
        if left == 0 || !is_of_member(&error) {
            return Err(error);
        }
    }
}

async fn read_once(session: &mut Session, prefix: &Prefix) -> Result<Published, UnreadableStore> {
    let mut read = PublishedRead::new(prefix.clone());
    loop {
        let page = match session.range(read.request()).await {
            Err(error) if *error.reason() == Reason::ResponseTooLarge && read.shrink() => continue,
            page => page?,
        };
        if let Some(lanes) = read.take(page)? {
            return Ok(lanes);
        }
    }
}

/// Returns whether another member, or another attempt, may give an answer.
fn is_of_member(error: &UnreadableStore) -> bool {
    match error {
        UnreadableStore::Etcd(error) => {
            error.blame() == Blame::Member || matches!(error.reason(), Reason::Compacted { .. })
        }
        UnreadableStore::Content(error) => matches!(error, ReadError::Inconsistent(_)),
    }
}
