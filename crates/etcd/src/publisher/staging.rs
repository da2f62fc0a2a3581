//! Stage of a large publish: a lease, the leased key that shows that the writer lives, and the entries in batches.
//!
//! ```text
//!  Granting ──lease──▶ Announcing ──alive──▶ Writing ──all batches──▶ complete
//!                                             │  ▲ a batch was refused: the lease has ended ──▶ lost
//!                                             ▼  │
//!                                           Renewing (every 10 s)
//! ```

use std::time::Duration;

use oxds_types::etcd::{LeaseGrantRequest, LeaseKeepAliveRequest, TxnRequest};

use super::plan::Write;
use super::request::{PublishAnswer, PublishRequest};
use super::transactions::{LaneKeys, put, stage_batch};
use crate::names::PublishId;
use oxds_core::time::Instant;

/// Time to live of the lease, in seconds: several times that of a slow batch. After it, another writer may delete the
/// stage.
const LEASE_SECONDS: i64 = 30;
/// Time after which the lease is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(10);

/// Stage that is being written.
#[derive(Debug)]
pub(super) struct Staging {
    keys: LaneKeys,
    id: PublishId,
    request_limit: usize,
    state: StagingState,
    renewed: Instant,
    /// Writes that were staged.
    staged: usize,
    /// Writes of the batch that etcd was asked for.
    batch: usize,
}

#[derive(Debug, Clone, Copy)]
enum StagingState {
    Granting,
    Announcing { lease: i64 },
    Writing(Alive),
    Renewing(Alive),
}

/// Leased key of a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alive {
    pub(super) lease: i64,
    pub(super) mod_revision: i64,
}

/// Progress of a stage.
#[derive(Debug)]
pub(super) enum Staged {
    More,
    Complete(Alive),
    /// The lease has ended, so another writer may have deleted the stage.
    Lost,
}

impl Staging {
    pub(super) fn new(keys: LaneKeys, id: PublishId, request_limit: usize, now: Instant) -> Self {
        Self {
            keys,
            id,
            request_limit,
            state: StagingState::Granting,
            renewed: now,
            staged: 0,
            batch: 0,
        }
    }

    /// Returns the lease, if there is one.
    pub(super) fn lease(&self) -> Option<i64> {
        match self.state {
            StagingState::Granting => None,
            StagingState::Announcing { lease } => Some(lease),
            StagingState::Writing(alive) | StagingState::Renewing(alive) => Some(alive.lease),
        }
    }

    /// Returns the next request. The same request is returned until it is answered.
    pub(super) fn request(&mut self, writes: &[Write], now: Instant) -> PublishRequest {
        if let StagingState::Writing(alive) = self.state
            && now - self.renewed >= RENEW_AFTER
        {
            self.state = StagingState::Renewing(alive);
        }
        match self.state {
            StagingState::Granting => {
                self.renewed = now;
                PublishRequest::Grant(LeaseGrantRequest {
                    ttl: LEASE_SECONDS,
                    id: 0,
                })
            }
            StagingState::Announcing { lease } => PublishRequest::Txn(TxnRequest {
                success: vec![put(self.keys.alive(self.id), "".into(), lease)],
                ..TxnRequest::default()
            }),
            StagingState::Writing(alive) => {
                let rest = &writes[self.staged.min(writes.len())..];
                let (request, batch) = stage_batch(
                    &self.keys,
                    self.id,
                    alive.mod_revision,
                    rest,
                    self.request_limit,
                );
                self.batch = batch;
                PublishRequest::Txn(request)
            }
            StagingState::Renewing(alive) => {
                // From before the request: the lease may be renewed at any time until the answer.
                self.renewed = now;
                PublishRequest::KeepAlive(LeaseKeepAliveRequest { id: alive.lease })
            }
        }
    }

    pub(super) fn take(&mut self, answer: &PublishAnswer, writes: &[Write]) -> Staged {
        match (self.state, answer) {
            (StagingState::Granting, PublishAnswer::Granted(lease)) => {
                self.state = StagingState::Announcing { lease: *lease };
            }
            (StagingState::Announcing { lease }, PublishAnswer::Txn(response)) => {
                let mod_revision = response.header.map_or(0, |header| header.revision);
                self.state = StagingState::Writing(Alive {
                    lease,
                    mod_revision,
                });
            }
            (StagingState::Writing(_), PublishAnswer::Txn(response)) if !response.succeeded => {
                return Staged::Lost;
            }
            (StagingState::Writing(alive), PublishAnswer::Txn(_)) => {
                self.staged += self.batch;
                if self.staged >= writes.len() {
                    return Staged::Complete(alive);
                }
            }
            // Whether the lease still exists shows at the next batch.
            (StagingState::Renewing(alive), _) => self.state = StagingState::Writing(alive),
            _ => {}
        }
        Staged::More
    }
}
