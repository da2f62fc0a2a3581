//! Service `Lease`: keys that are deleted when their owner is silent.

use std::fmt;
use std::time::Duration;

use oxds_types::etcd::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseRevokeRequest, LeaseRevokeResponse,
};

use super::error::{EtcdError, Reason};
use super::etcd_client::EtcdClient;
use super::method::Method;
use super::stream::OpenStream;

const GRANT: Method<LeaseGrantRequest, LeaseGrantResponse> =
    Method::new("/etcdserverpb.Lease/LeaseGrant");
const REVOKE: Method<LeaseRevokeRequest, LeaseRevokeResponse> =
    Method::new("/etcdserverpb.Lease/LeaseRevoke");
const KEEP_ALIVE: Method<LeaseKeepAliveRequest, LeaseKeepAliveResponse> =
    Method::new("/etcdserverpb.Lease/LeaseKeepAlive");

/// A stream that renews one lease. The stream ends when it is dropped; the lease ends by itself, or by
/// [`EtcdClient::lease_revoke`].
pub struct LeaseKeeper {
    client: EtcdClient,
    id: i64,
    stream: OpenStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse>,
}

impl EtcdClient {
    /// Makes a lease.
    ///
    /// # Errors
    /// Those of all writes.
    pub async fn lease_grant(
        &self,
        request: LeaseGrantRequest,
    ) -> Result<LeaseGrantResponse, EtcdError> {
        self.call(GRANT, request).await
    }

    /// Ends a lease, and deletes its keys.
    ///
    /// # Errors
    /// [`Reason::LeaseNotFound`], and those of all writes.
    pub async fn lease_revoke(
        &self,
        request: LeaseRevokeRequest,
    ) -> Result<LeaseRevokeResponse, EtcdError> {
        self.call(REVOKE, request).await
    }

    /// Opens a stream that renews a lease, and renews it.
    ///
    /// # Errors
    /// [`Reason::LeaseNotFound`] if the lease has ended, and those of all calls.
    pub async fn lease_keeper(&self, id: i64) -> Result<LeaseKeeper, EtcdError> {
        let first = LeaseKeepAliveRequest { id };
        let access = "the right to renew the lease";
        let opened = self.open(KEEP_ALIVE, false, first, access, ended);
        let (stream, _) = opened.await?;
        Ok(LeaseKeeper {
            client: self.clone(),
            id,
            stream,
        })
    }
}

impl LeaseKeeper {
    /// Renews the lease, and returns the time after which it ends if it is not renewed again.
    ///
    /// # Errors
    /// [`Reason::LeaseNotFound`] if the lease has ended; [`Reason::Timeout`] if the member does not answer; the end of
    /// the stream. The keeper is of no use after an error.
    ///
    /// # Cancel safety
    /// The lease may be renewed nevertheless, and the next call may return the answer to this one.
    pub async fn renew(&mut self) -> Result<Duration, EtcdError> {
        self.stream.send(LeaseKeepAliveRequest { id: self.id });
        let limit = self.client.limit();
        let answer = match tokio::time::timeout(limit, self.stream.next()).await {
            Ok(answer) => answer?,
            Err(_) => return Err(self.client.error(Reason::Timeout(limit))),
        };
        match ended(&answer) {
            Some(reason) => Err(self.client.error(reason)),
            None => Ok(Duration::from_secs(answer.ttl.unsigned_abs())),
        }
    }
}

/// etcd answers the renewal of a lease that has ended by a time of 0.
fn ended(answer: &LeaseKeepAliveResponse) -> Option<Reason> {
    (answer.ttl <= 0).then_some(Reason::LeaseNotFound)
}

impl fmt::Debug for LeaseKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseKeeper")
            .field("member", &self.client.member())
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
