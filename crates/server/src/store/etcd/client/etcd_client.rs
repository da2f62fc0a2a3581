//! A client of one member.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::etcd::{StatusRequest, StatusResponse};
use prost::Message;
use tokio::sync::Mutex;

use super::access::Access;
use super::calls::{Shared, Token, limited};
use super::classify;
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::{EtcdError, Reason};
use super::identity::MemberIdentity;
use super::method::Method;
use super::options::ClientOptions;
use super::security;
use super::stream::OpenStream;

/// State of a member; it needs no permission, but a user if etcd has users.
pub(super) const STATUS: Method<StatusRequest, StatusResponse> =
    Method::new("/etcdserverpb.Maintenance/Status");

/// A client of one member of etcd. Cheap to clone.
///
/// It has one connection, which ends with the last clone, and which it does not make again after a failure: the caller
/// decides whether to use the same member or another one.
///
/// Every call has a time limit. A call that etcd rejects because of its token is made once more with a new token
/// (G-31); no other call is repeated, because a write may have taken effect ([`EtcdError::is_outcome_unknown`]).
///
/// # Cancel safety
/// Dropping the future of a call cancels the call. A write may take effect nevertheless.
#[derive(Clone)]
pub struct EtcdClient {
    shared: Arc<Shared>,
    identity: Arc<MemberIdentity>,
    timeout: Duration,
}

impl EtcdClient {
    /// Connects to a member, authenticates if there is a user, and asks the member who it is.
    ///
    /// # Errors
    /// No connection can be made, TLS or authentication fails, or the program at the address cannot be used (G-33).
    ///
    /// # Cancel safety
    /// Dropping the future closes the socket.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn connect(endpoint: &Endpoint, options: &ClientOptions) -> Result<Self, EtcdError> {
        let member: Arc<str> = endpoint.to_string().into();
        let opening = Connection::open(endpoint, &*options.credentials, options.keepalive);
        let reason = match tokio::time::timeout(options.timeout, opening).await {
            Ok(Ok(connection)) => {
                return Self::identify(member, connection, options).await;
            }
            Ok(Err(error)) => classify::dial(&error, security::explain),
            Err(_) => Reason::Unreachable(format!("no answer within {:?}", options.timeout)),
        };
        Err(EtcdError::new(&member, reason))
    }

    async fn identify(
        member: Arc<str>,
        connection: Connection,
        options: &ClientOptions,
    ) -> Result<Self, EtcdError> {
        let shared = Shared {
            member,
            connection,
            user: options.user.clone(),
            max_response: options.max_response,
            token: Mutex::default(),
        };
        let status = shared
            .call(STATUS, StatusRequest {}, options.timeout)
            .await?;
        let identity = MemberIdentity::read(&status).map_err(|reason| shared.error(reason))?;
        Ok(Self {
            shared: Arc::new(shared),
            identity: Arc::new(identity),
            timeout: options.timeout,
        })
    }

    /// Returns a client on the same connection whose calls have another time limit.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            identity: Arc::clone(&self.identity),
            timeout,
        }
    }

    /// Returns the URL of the member.
    #[must_use]
    pub fn member(&self) -> &str {
        &self.shared.member
    }

    /// Returns the identity that the member had when the connection was made.
    #[must_use]
    pub fn identity(&self) -> &MemberIdentity {
        &self.identity
    }

    /// Returns whether another call may be made: the connection is not closed, and the member has sent no GOAWAY.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.connection.is_open()
    }

    /// Makes a call with one request and one response.
    pub(super) async fn call<Q, R>(&self, method: Method<Q, R>, request: Q) -> Result<R, EtcdError>
    where
        Q: Message + Access + Clone + 'static,
        R: Message + Default + 'static,
    {
        self.shared.call(method, request, self.timeout).await
    }

    /// Opens a stream, and returns its first response. `first` is the first request.
    ///
    /// `rejected` tells from the first response why etcd has rejected the request, if it has.
    pub(super) async fn open<Q, R>(
        &self,
        method: Method<Q, R>,
        needs_leader: bool,
        first: Q,
        access: &str,
        rejected: impl Fn(&R) -> Option<Reason>,
    ) -> Result<(OpenStream<Q, R>, R), EtcdError>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let shared = &self.shared;
        let limit = self.timeout;
        let attempt = |token: Option<Token>| {
            let opening = shared.stream(method, needs_leader, first.clone(), token);
            let rejected = &rejected;
            async move {
                let (stream, response) = limited(limit, opening).await?;
                match rejected(&response) {
                    Some(reason) => Err(reason),
                    None => Ok((stream, response)),
                }
            }
        };
        shared.authenticated(limit, access, true, attempt).await
    }

    /// Returns an error of this member.
    pub(super) fn error(&self, reason: Reason) -> EtcdError {
        self.shared.error(reason)
    }

    /// Returns the time limit of calls.
    pub(crate) fn limit(&self) -> Duration {
        self.timeout
    }
}

impl fmt::Debug for EtcdClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdClient")
            .field("member", &self.shared.member)
            .field("identity", &self.identity)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
