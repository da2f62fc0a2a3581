//! Connections of a writer: one at a time, to the next member after a failure.

use std::time::Duration;

use oxds_etcd::Space;
use oxds_etcd::publisher::{PublishAnswer, PublishRequest};
use oxds_types::etcd::{RangeRequest, RangeResponse};

use super::super::client::{
    Blame, ClientOptions, Endpoints, EtcdClient, EtcdError, Members, Reason,
};
use super::super::space_check;
use crate::store::finding::Finding;

/// Connection to a cluster, for one request at a time.
#[derive(Debug)]
pub struct Session {
    members: Members,
    options: ClientOptions,
    client: Option<EtcdClient>,
}

impl Session {
    /// Makes a session, which connects at its first request. It begins with the first member.
    #[must_use]
    pub fn new(endpoints: Endpoints, options: ClientOptions) -> Self {
        Self {
            members: Members::new(endpoints, 0),
            options,
            client: None,
        }
    }

    /// Returns the number of members.
    pub(super) fn members(&self) -> usize {
        self.members.count()
    }

    /// Does a request of a publish, once. `limit` is a limit below that of the options.
    pub(super) async fn send(
        &mut self,
        request: PublishRequest,
        limit: Option<Duration>,
    ) -> Result<PublishAnswer, EtcdError> {
        let client = self.client().await?;
        let client = match limit {
            Some(limit) => client.with_timeout(limit.min(client.limit())),
            None => client,
        };
        let answer = match request {
            PublishRequest::Range(range) => client.range(range).await.map(PublishAnswer::Range),
            PublishRequest::Txn(txn) => client.txn(txn).await.map(PublishAnswer::Txn),
            PublishRequest::Grant(grant) => {
                let granted = client.lease_grant(grant).await;
                granted.map(|granted| PublishAnswer::Granted(granted.id))
            }
            PublishRequest::KeepAlive(lease) => {
                let kept = client.lease_keeper(lease.id).await.map(drop);
                unless_ended(kept).map(|()| PublishAnswer::KeptAlive)
            }
            PublishRequest::Revoke(lease) => {
                let revoked = client.lease_revoke(lease).await.map(drop);
                unless_ended(revoked).map(|()| PublishAnswer::Revoked)
            }
        };
        self.checked(answer)
    }

    /// Reads keys, once.
    ///
    /// # Errors
    /// Those of a connection and of a read. The next request goes to another member if this one is to blame.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the read; the session can be used again.
    pub async fn range(&mut self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        let client = self.client().await?;
        let answer = client.range(request).await;
        self.checked(answer)
    }

    /// Returns the warning of the space of etcd, if it is scarce (G-26); `None` also if the member does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the read; the session can be used again.
    pub async fn space_warning(&mut self) -> Option<Finding> {
        let client = self.client().await.ok()?;
        let answer = client.status().await;
        let status = self.checked(answer).ok()?;
        space_check::finding(Space::of(&status), client.member())
    }

    async fn client(&mut self) -> Result<EtcdClient, EtcdError> {
        if let Some(client) = self.client.as_ref().filter(|client| client.is_open()) {
            return Ok(client.clone());
        }
        let connected = EtcdClient::connect(self.members.current(), &self.options).await;
        let client = self.checked(connected)?;
        self.client = Some(client.clone());
        Ok(client)
    }

    /// Leaves the member if it is to blame for an error.
    fn checked<T>(&mut self, answer: Result<T, EtcdError>) -> Result<T, EtcdError> {
        let failed = answer.as_ref().err();
        if failed.is_some_and(|error| error.blame() == Blame::Member) {
            self.client = None;
            self.members.use_next();
        }
        answer
    }
}

/// A lease that has ended is no failure: whether it exists shows at the next write.
fn unless_ended(answer: Result<(), EtcdError>) -> Result<(), EtcdError> {
    match answer {
        Err(error) if *error.reason() == Reason::LeaseNotFound => Ok(()),
        answer => answer,
    }
}
