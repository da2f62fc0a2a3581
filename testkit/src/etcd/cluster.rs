//! The data that all members of a scripted etcd share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use oxds_types::etcd::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse,
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

use super::leases::Leases;
use super::mvcc::{KeyRange, Mvcc};
use super::refusal;
use super::txn::{self, Path};
use super::users::Users;

/// Limits of etcd: `--max-txn-ops` and `--max-request-bytes`.
pub(super) const MAX_OPERATIONS: usize = 128;
/// See [`MAX_OPERATIONS`].
pub(super) const MAX_REQUEST: usize = 1_572_864;

/// A cluster. Its members share it.
#[derive(Debug)]
pub(super) struct Cluster {
    data: Mutex<Data>,
    /// Counts changes of the data, for the watches.
    changed: watch::Sender<u64>,
}

/// The data of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) id: u64,
    pub(super) term: u64,
    pub(super) store: Mvcc,
    pub(super) leases: Leases,
    pub(super) users: Users,
    /// The alarm NOSPACE is raised.
    pub(super) is_full: bool,
}

impl Cluster {
    /// Makes an empty cluster.
    pub(super) fn new(id: u64) -> Self {
        Self {
            data: Mutex::new(Data {
                id,
                term: 2,
                store: Mvcc::default(),
                leases: Leases::default(),
                users: Users::default(),
                is_full: false,
            }),
            changed: watch::Sender::default(),
        }
    }

    /// Reads or changes the data, and wakes the watches.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut Data) -> T) -> T {
        let done = act(&mut self.data());
        self.changed.send_modify(|count| *count += 1);
        done
    }

    /// Locks the data.
    pub(super) fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that is notified of changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

impl Data {
    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Status> {
        txn::check_range(request)?;
        self.store.range(request)
    }

    pub(super) fn put(&mut self, request: &PutRequest) -> Result<PutResponse, Status> {
        txn::check_put(request)?;
        self.check_space(true)?;
        txn::check_state(&self.store, &self.leases, request)?;
        let mut change = self.store.begin();
        change.put(request);
        change.end();
        Ok(PutResponse::default())
    }

    pub(super) fn delete(
        &mut self,
        request: &DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        txn::check_delete(request)?;
        let mut change = self.store.begin();
        let deleted = change.delete(request);
        change.end();
        Ok(DeleteRangeResponse {
            header: None,
            deleted,
        })
    }

    pub(super) fn txn(&mut self, request: &TxnRequest) -> Result<TxnResponse, Status> {
        txn::check(request, MAX_OPERATIONS)?;
        self.check_space(txn::needs_space(request))?;
        let path = Path::decide(&self.store, request);
        path.check(&self.store, &self.leases, request)?;
        let mut change = self.store.begin();
        let response = path.apply(&mut change, request);
        change.end();
        Ok(response)
    }

    pub(super) fn compact(
        &mut self,
        request: &CompactionRequest,
    ) -> Result<CompactionResponse, Status> {
        self.store.compact(request.revision)?;
        Ok(CompactionResponse::default())
    }

    pub(super) fn grant(
        &mut self,
        request: &LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, Status> {
        self.check_space(true)?;
        let (id, ttl) = self.leases.grant(request.id, request.ttl, Instant::now())?;
        Ok(LeaseGrantResponse {
            id,
            ttl,
            ..LeaseGrantResponse::default()
        })
    }

    pub(super) fn revoke(
        &mut self,
        request: &LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, Status> {
        if self.end_lease(request.id) {
            Ok(LeaseRevokeResponse::default())
        } else {
            Err(refusal::lease_not_found())
        }
    }

    /// Ends a lease: its keys are deleted at one revision. Returns whether it existed.
    pub(super) fn end_lease(&mut self, id: i64) -> bool {
        if !self.leases.remove(id) {
            return false;
        }
        let all = KeyRange {
            key: &[0],
            end: &[0],
        };
        let keys = self.store.found(all, i64::MAX);
        let keys: Vec<Bytes> = keys
            .filter(|found| found.lease == id)
            .map(|found| found.key.clone())
            .collect();
        let mut change = self.store.begin();
        for key in keys {
            change.delete(&DeleteRangeRequest {
                key,
                ..DeleteRangeRequest::default()
            });
        }
        change.end();
        true
    }

    fn check_space(&self, is_needed: bool) -> Result<(), Status> {
        if self.is_full && is_needed {
            Err(refusal::no_space())
        } else {
            Ok(())
        }
    }
}
