//! Model of an etcd cluster that answers every request correctly: revisions, transactions, leases and limits.
//!
//! ```text
//!  keys:  key ──▶ values by revision (a value of version 0 is a deletion)
//!  log:   revision ──▶ events, in the order of the operations
//! ```
//! A clone is a backup. Time passes only by [`Etcd::expire`].

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use oxds_types::etcd::{
    Compare, CompareResult, CompareTarget, CompareValue, DeleteRangeRequest, DeleteRangeResponse,
    Event, EventType, KeyValue, LeaseGrantRequest, LeaseGrantResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, Request, RequestOp, Response, ResponseHeader, ResponseOp,
    TxnRequest, TxnResponse,
};
use prost::Message;

/// Default of `--max-request-bytes`.
pub(super) const MAX_REQUEST: usize = 1536 * 1024;
/// Default of `--max-txn-ops`.
pub(super) const MAX_OPS: usize = 128;

/// Reason why a request has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EtcdError {
    RequestTooLarge,
    TooManyOperations,
    DuplicateKey,
    EmptyKey,
    Compacted,
    FutureRevision,
    LeaseNotFound,
    NoSpace,
}

/// Model of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Etcd {
    cluster_id: u64,
    revision: i64,
    compacted: i64,
    keys: BTreeMap<Bytes, Vec<KeyValue>>,
    log: BTreeMap<i64, Vec<Event>>,
    leases: BTreeMap<i64, BTreeSet<Bytes>>,
    last_lease: i64,
    /// Writes fail, as with the alarm NOSPACE.
    pub(super) no_space: bool,
}

impl Default for Etcd {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Etcd {
    pub(super) fn new(cluster_id: u64) -> Self {
        Self {
            cluster_id,
            revision: 1,
            compacted: 0,
            keys: BTreeMap::new(),
            log: BTreeMap::new(),
            leases: BTreeMap::new(),
            last_lease: 0,
            no_space: false,
        }
    }

    /// Makes it another cluster with the same keys.
    pub(super) fn set_cluster(&mut self, id: u64) {
        self.cluster_id = id;
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    pub(super) fn header(&self) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: 1,
            revision: self.revision,
            raft_term: 1,
        }
    }

    /// Returns the events of all revisions from `start`, by revision.
    pub(super) fn events(&self, start: i64) -> impl Iterator<Item = (i64, &[Event])> {
        let events = self.log.range(start..);
        events.map(|(revision, events)| (*revision, &events[..]))
    }

    /// Returns the keys with a prefix, at the latest revision.
    pub(super) fn keys(&self, prefix: &str) -> Vec<KeyValue> {
        let current = self
            .keys
            .iter()
            .filter(|(key, _)| key.starts_with(prefix.as_bytes()));
        let current = current.filter_map(|(_, values)| values.last());
        current.filter(|kv| kv.version > 0).cloned().collect()
    }

    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, EtcdError> {
        if request.revision > self.revision {
            return Err(EtcdError::FutureRevision);
        }
        if request.revision > 0 && request.revision < self.compacted {
            return Err(EtcdError::Compacted);
        }
        let revision = match request.revision {
            0 => i64::MAX,
            revision => revision,
        };
        let in_range = self.keys_in(&request.key, &request.range_end);
        let found = in_range.filter_map(|(_, values)| at(values, revision));
        let found: Vec<&KeyValue> = found.collect();
        let limit = match request.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let returned = if request.count_only { 0 } else { limit };
        let kvs = found.iter().take(returned).map(|kv| KeyValue {
            value: if request.keys_only {
                Bytes::new()
            } else {
                kv.value.clone()
            },
            ..(*kv).clone()
        });
        Ok(RangeResponse {
            header: Some(self.header()),
            kvs: kvs.collect(),
            more: !request.count_only && found.len() > limit,
            count: found.len() as i64,
        })
    }

    pub(super) fn txn(&mut self, request: &TxnRequest) -> Result<TxnResponse, EtcdError> {
        check_size(request)?;
        check_operations(request, MAX_OPS)?;
        for branch in [&request.success, &request.failure] {
            check_duplicates(branch)?;
        }
        self.check_reads(request)?;
        let mut writes = Writes::new(self.revision + 1);
        let response = self.branch(request, &mut writes);
        if self.no_space && writes.puts > 0 {
            return Err(EtcdError::NoSpace);
        }
        if writes
            .leases
            .iter()
            .any(|lease| !self.leases.contains_key(lease))
        {
            return Err(EtcdError::LeaseNotFound);
        }
        self.commit(writes);
        Ok(response.done(self.header()))
    }

    /// Writes one key, as `etcdctl put` does.
    pub(super) fn put(&mut self, key: &str, value: impl Into<Bytes>) -> i64 {
        let put = PutRequest {
            key: key.to_owned().into(),
            value: value.into(),
            ..PutRequest::default()
        };
        self.write(Request::Put(put)).expect("a small put")
    }

    /// Deletes one key, as `etcdctl del` does.
    pub(super) fn delete(&mut self, key: &str) -> i64 {
        let delete = DeleteRangeRequest {
            key: key.to_owned().into(),
            range_end: Bytes::new(),
        };
        self.write(Request::DeleteRange(delete))
            .expect("a deletion")
    }

    fn write(&mut self, request: Request) -> Result<i64, EtcdError> {
        let success = vec![RequestOp {
            request: Some(request),
        }];
        self.txn(&TxnRequest {
            success,
            ..TxnRequest::default()
        })?;
        Ok(self.revision)
    }

    /// Discards the history before a revision.
    pub(super) fn compact(&mut self, revision: i64) {
        assert!(revision <= self.revision, "as etcd requires");
        self.compacted = revision;
        self.log = self.log.split_off(&revision);
    }

    pub(super) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(super) fn grant(
        &mut self,
        request: LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, EtcdError> {
        if self.no_space {
            return Err(EtcdError::NoSpace);
        }
        self.last_lease += 1;
        self.leases.insert(self.last_lease, BTreeSet::new());
        Ok(LeaseGrantResponse {
            header: Some(self.header()),
            id: self.last_lease,
            ttl: request.ttl,
            error: String::new(),
        })
    }

    /// Returns whether a lease exists.
    pub(super) fn has_lease(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Ends a lease, and deletes its keys in one revision.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), EtcdError> {
        let keys = self
            .leases
            .get(&id)
            .ok_or(EtcdError::LeaseNotFound)?
            .clone();
        let mut writes = Writes::new(self.revision + 1);
        for key in keys {
            writes.delete(key);
        }
        self.commit(writes);
        self.leases.remove(&id);
        Ok(())
    }

    /// Lets the time of all leases pass.
    pub(super) fn expire(&mut self) {
        let leases: Vec<i64> = self.leases.keys().copied().collect();
        for id in leases {
            self.revoke(id).expect("it exists");
        }
    }

    fn keys_in(&self, key: &Bytes, end: &Bytes) -> impl Iterator<Item = (&Bytes, &Vec<KeyValue>)> {
        let (key, end) = (key.clone(), end.clone());
        let upper = end.clone();
        let from = self.keys.range(key.clone()..);
        from.take_while(move |(found, _)| match &*upper {
            b"" => **found == key,
            b"\0" => true,
            upper => &found[..] < upper,
        })
    }

    /// Does the branch of a transaction that its conditions choose.
    fn branch(&self, request: &TxnRequest, writes: &mut Writes) -> TxnResponse {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let operations = if succeeded {
            &request.success
        } else {
            &request.failure
        };
        let responses = operations
            .iter()
            .filter_map(|operation| operation.request.as_ref());
        let responses = responses.map(|operation| ResponseOp {
            response: Some(self.operation(operation, writes)),
        });
        TxnResponse {
            header: None,
            succeeded,
            responses: responses.collect(),
        }
    }

    fn operation(&self, operation: &Request, writes: &mut Writes) -> Response {
        match operation {
            // No test reads in a transaction what the same transaction writes.
            Request::Range(range) => Response::Range(self.range(range).expect("checked before")),
            Request::Put(put) => {
                writes.put(put);
                Response::Put(PutResponse { header: None })
            }
            Request::DeleteRange(delete) => {
                let in_range = self.keys_in(&delete.key, &delete.range_end);
                let found = in_range.filter(|(_, values)| at(values, i64::MAX).is_some());
                let found: Vec<Bytes> = found.map(|(key, _)| key.clone()).collect();
                let deleted = found.len() as i64;
                found.into_iter().for_each(|key| writes.delete(key));
                Response::DeleteRange(DeleteRangeResponse {
                    header: None,
                    deleted,
                })
            }
            Request::Txn(nested) => Response::Txn(self.branch(nested, writes)),
        }
    }

    fn check_reads(&self, request: &TxnRequest) -> Result<(), EtcdError> {
        for operation in request.success.iter().chain(&request.failure) {
            match &operation.request {
                Some(Request::Range(range)) => self.range(range).map(drop)?,
                Some(Request::Txn(nested)) => self.check_reads(nested)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// etcd, `applyCompare`: a condition on a range holds for all keys of it; one that has no key is compared as a key
    /// that does not exist.
    fn holds(&self, compare: &Compare) -> bool {
        if compare.range_end.is_empty() {
            let values = self.keys.get(&compare.key);
            return Self::holds_for(compare, values.and_then(|values| at(values, i64::MAX)));
        }
        let in_range = self.keys_in(&compare.key, &compare.range_end);
        let mut found = in_range
            .filter_map(|(_, values)| at(values, i64::MAX))
            .peekable();
        if found.peek().is_none() {
            return Self::holds_for(compare, None);
        }
        found.all(|kv| Self::holds_for(compare, Some(kv)))
    }

    fn holds_for(compare: &Compare, found: Option<&KeyValue>) -> bool {
        let number = |of: fn(&KeyValue) -> i64| found.map_or(0, of);
        let order = match (&compare.value, compare.target()) {
            (Some(CompareValue::Version(n)), CompareTarget::Version) => {
                number(|kv| kv.version).cmp(n)
            }
            (Some(CompareValue::CreateRevision(n)), CompareTarget::Create) => {
                number(|kv| kv.create_revision).cmp(n)
            }
            (Some(CompareValue::ModRevision(n)), CompareTarget::Mod) => {
                number(|kv| kv.mod_revision).cmp(n)
            }
            (Some(CompareValue::Lease(n)), CompareTarget::Lease) => number(|kv| kv.lease).cmp(n),
            (Some(CompareValue::Value(value)), CompareTarget::Value) => match found {
                Some(kv) => kv.value.cmp(value),
                None => return false,
            },
            other => panic!("value and target differ: {other:?}"),
        };
        match compare.result() {
            CompareResult::Equal => order.is_eq(),
            CompareResult::Greater => order.is_gt(),
            CompareResult::Less => order.is_lt(),
            CompareResult::NotEqual => order.is_ne(),
        }
    }

    fn commit(&mut self, writes: Writes) {
        if writes.events.is_empty() {
            return;
        }
        self.revision = writes.revision;
        let mut events = writes.events;
        for event in &mut events {
            let kv = event.kv.as_mut().expect("every event has one");
            let values = self.keys.entry(kv.key.clone()).or_default();
            let before = values.last().filter(|kv| kv.version > 0);
            let (created, version, lease) = before.map_or((kv.mod_revision, 0, 0), |kv| {
                (kv.create_revision, kv.version, kv.lease)
            });
            if let Some(keys) = self.leases.get_mut(&lease) {
                keys.remove(&kv.key);
            }
            if event.r#type == EventType::Put as i32 {
                (kv.create_revision, kv.version) = (created, version + 1);
                if let Some(keys) = self.leases.get_mut(&kv.lease) {
                    keys.insert(kv.key.clone());
                }
            }
            values.push(kv.clone());
        }
        self.log.insert(self.revision, events);
    }
}

/// Returns the value of a key at a revision.
fn at(values: &[KeyValue], revision: i64) -> Option<&KeyValue> {
    let value = values.iter().rev().find(|kv| kv.mod_revision <= revision);
    value.filter(|kv| kv.version > 0)
}

/// Events of one revision.
struct Writes {
    revision: i64,
    events: Vec<Event>,
    deleted: BTreeSet<Bytes>,
    leases: BTreeSet<i64>,
    puts: usize,
}

impl Writes {
    fn new(revision: i64) -> Self {
        Self {
            revision,
            events: Vec::new(),
            deleted: BTreeSet::new(),
            leases: BTreeSet::new(),
            puts: 0,
        }
    }

    fn put(&mut self, put: &PutRequest) {
        self.puts += 1;
        if put.lease != 0 {
            self.leases.insert(put.lease);
        }
        self.event(
            EventType::Put,
            KeyValue {
                key: put.key.clone(),
                value: put.value.clone(),
                lease: put.lease,
                ..KeyValue::default()
            },
        );
    }

    fn delete(&mut self, key: Bytes) {
        if self.deleted.insert(key.clone()) {
            self.event(
                EventType::Delete,
                KeyValue {
                    key,
                    ..KeyValue::default()
                },
            );
        }
    }

    fn event(&mut self, of: EventType, kv: KeyValue) {
        let mod_revision = self.revision;
        self.events.push(Event {
            r#type: of.into(),
            kv: Some(KeyValue { mod_revision, ..kv }),
        });
    }
}

/// Sets the header of a response after its revision is known.
trait Done {
    fn done(self, header: ResponseHeader) -> Self;
}

impl Done for TxnResponse {
    fn done(mut self, header: ResponseHeader) -> Self {
        self.header = Some(header);
        self
    }
}

fn check_size(request: &impl Message) -> Result<(), EtcdError> {
    match request.encoded_len() {
        0..=MAX_REQUEST => Ok(()),
        _ => Err(EtcdError::RequestTooLarge),
    }
}

/// etcd, `checkTxnRequest`: what a level needs is subtracted for the levels in it.
fn check_operations(request: &TxnRequest, allowed: usize) -> Result<(), EtcdError> {
    let lengths = [
        request.compare.len(),
        request.success.len(),
        request.failure.len(),
    ];
    let needed = lengths.into_iter().max().unwrap_or(0);
    let Some(rest) = allowed.checked_sub(needed) else {
        return Err(EtcdError::TooManyOperations);
    };
    for operation in request.success.iter().chain(&request.failure) {
        match &operation.request {
            Some(Request::Txn(nested)) => check_operations(nested, rest)?,
            Some(Request::Put(put)) if put.key.is_empty() => return Err(EtcdError::EmptyKey),
            Some(_) => {}
            None => panic!("an operation is absent"),
        }
    }
    Ok(())
}

/// etcd, `checkIntervals`: no key is put twice, or put and deleted.
fn check_duplicates(operations: &[RequestOp]) -> Result<(), EtcdError> {
    let (mut puts, mut deletions) = (BTreeSet::new(), Vec::new());
    collect_writes(operations, &mut puts, &mut deletions)?;
    let is_deleted = |delete: &DeleteRangeRequest| match &delete.range_end[..] {
        b"" => puts.contains(&delete.key),
        end => puts
            .range(delete.key.clone()..)
            .next()
            .is_some_and(|key| &key[..] < end),
    };
    if deletions.iter().any(is_deleted) {
        Err(EtcdError::DuplicateKey)
    } else {
        Ok(())
    }
}

fn collect_writes(
    operations: &[RequestOp],
    puts: &mut BTreeSet<Bytes>,
    deletions: &mut Vec<DeleteRangeRequest>,
) -> Result<(), EtcdError> {
    for operation in operations {
        match &operation.request {
            Some(Request::Put(put)) if !puts.insert(put.key.clone()) => {
                return Err(EtcdError::DuplicateKey);
            }
            Some(Request::DeleteRange(delete)) => deletions.push(delete.clone()),
            Some(Request::Txn(nested)) => collect_writes(&nested.success, puts, deletions)?,
            _ => {}
        }
    }
    Ok(())
}
