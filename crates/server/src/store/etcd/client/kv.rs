//! Service `KV`: reads, writes and transactions.

use oxds_types::etcd::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

use super::error::EtcdError;
use super::etcd_client::EtcdClient;
use super::method::Method;

const RANGE: Method<RangeRequest, RangeResponse> = Method::new("/etcdserverpb.KV/Range");
const PUT: Method<PutRequest, PutResponse> = Method::new("/etcdserverpb.KV/Put");
const DELETE_RANGE: Method<DeleteRangeRequest, DeleteRangeResponse> =
    Method::new("/etcdserverpb.KV/DeleteRange");
const TXN: Method<TxnRequest, TxnResponse> = Method::new("/etcdserverpb.KV/Txn");
const COMPACT: Method<CompactionRequest, CompactionResponse> =
    Method::new("/etcdserverpb.KV/Compact");

impl EtcdClient {
    /// Reads a range of keys.
    ///
    /// # Errors
    /// [`Reason::Compacted`](super::Reason::Compacted) and [`Reason::FutureRevision`](super::Reason::FutureRevision),
    /// and those of all calls.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        self.call(RANGE, request).await
    }

    /// Writes a key.
    ///
    /// # Errors
    /// [`Reason::LeaseNotFound`](super::Reason::LeaseNotFound), and those of all writes.
    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, EtcdError> {
        self.call(PUT, request).await
    }

    /// Deletes a range of keys.
    ///
    /// # Errors
    /// Those of all writes.
    pub async fn delete_range(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, EtcdError> {
        self.call(DELETE_RANGE, request).await
    }

    /// Makes a transaction. A transaction whose conditions do not hold is no error.
    ///
    /// # Errors
    /// [`Reason::TooManyOperations`](super::Reason::TooManyOperations),
    /// [`Reason::RequestTooLarge`](super::Reason::RequestTooLarge),
    /// [`Reason::DuplicateKey`](super::Reason::DuplicateKey), and those of all writes.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.call(TXN, request).await
    }

    /// Discards the history before a revision.
    ///
    /// # Errors
    /// [`Reason::Compacted`](super::Reason::Compacted) if that has been done before, and those of all calls.
    pub async fn compact(
        &self,
        request: CompactionRequest,
    ) -> Result<CompactionResponse, EtcdError> {
        self.call(COMPACT, request).await
    }
}
