//! Calls with tokens and time limits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::etcd::{AuthenticateRequest, AuthenticateResponse};
use prost::Message;
use tokio::sync::{Mutex, mpsc};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::access::Access;
use super::classify;
use super::connection::Connection;
use super::error::{EtcdError, Reason};
use super::method::Method;
use super::options::User;
use super::stream::OpenStream;

/// A token of a user, as etcd expects it in the metadata `token`.
pub(super) type Token = MetadataValue<Ascii>;

const AUTHENTICATE: Method<AuthenticateRequest, AuthenticateResponse> =
    Method::new("/etcdserverpb.Auth/Authenticate");

/// A connection, and what all clones of a client share.
pub(super) struct Shared {
    pub(super) member: Arc<str>,
    pub(super) connection: Connection,
    pub(super) user: Option<User>,
    pub(super) max_response: usize,
    /// Locked while etcd is asked for a token, so that concurrent calls wait for the same one.
    pub(super) token: Mutex<Option<Token>>,
}

impl Shared {
    /// Returns an error of this member.
    pub(super) fn error(&self, reason: Reason) -> EtcdError {
        EtcdError::new(&self.member, reason)
    }

    /// Makes a call with one request and one response.
    pub(super) async fn call<Q, R>(
        &self,
        method: Method<Q, R>,
        request: Q,
        limit: Duration,
    ) -> Result<R, EtcdError>
    where
        Q: Message + Access + Clone + 'static,
        R: Message + Default + 'static,
    {
        let access = request.access();
        // No async closure: their futures are not `Send`.
        let attempt = |token| limited(limit, self.unary(method, request.clone(), token, limit));
        self.authenticated(limit, &access, false, attempt).await
    }

    /// Makes an attempt with the current token, and another one with a new token if etcd rejects the first token.
    ///
    /// etcd 3.4 and 3.5 answer an expired token of a watch by `permission denied` (etcd#12385): with
    /// `denial_is_doubtful` that is believed only with a new token.
    pub(super) async fn authenticated<T, F>(
        &self,
        limit: Duration,
        access: &str,
        denial_is_doubtful: bool,
        attempt: impl Fn(Option<Token>) -> F,
    ) -> Result<T, EtcdError>
    where
        F: Future<Output = Result<T, Reason>>,
    {
        let token = self.token(None, limit).await?;
        let reason = match attempt(token.clone()).await {
            Ok(done) => return Ok(done),
            Err(reason) => reason,
        };
        let is_rejected = match reason {
            Reason::Unauthenticated(_) => true,
            Reason::PermissionDenied(_) => denial_is_doubtful,
            _ => false,
        };
        let reason = if self.user.is_some() && is_rejected {
            let token = self.token(Some(token), limit).await?;
            match attempt(token).await {
                Ok(done) => return Ok(done),
                Err(reason) => reason,
            }
        } else {
            reason
        };
        Err(self.error(match reason {
            Reason::PermissionDenied(_) => Reason::PermissionDenied(access.to_owned()),
            reason => reason,
        }))
    }

    /// Returns a token other than `rejected`; `None` without a user, or while etcd does not use authentication.
    async fn token(
        &self,
        rejected: Option<Option<Token>>,
        limit: Duration,
    ) -> Result<Option<Token>, EtcdError> {
        let Some(user) = &self.user else {
            return Ok(None);
        };
        let mut current = self.token.lock().await;
        // Another call may have got a new one in the meantime.
        if current.is_some() && rejected.as_ref() != Some(&*current) {
            return Ok(current.clone());
        }
        let request = AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        let answer = limited(limit, self.unary(AUTHENTICATE, request, None, limit)).await;
        *current = match answer {
            Ok(AuthenticateResponse { token, .. }) => Some(token.parse().map_err(|_| {
                self.error(Reason::NotEtcd(
                    "its token is not a value of HTTP".to_owned(),
                ))
            })?),
            // A user is allowed, but not needed.
            Err(Reason::Other {
                code: Code::FailedPrecondition,
                message,
            }) if message == "etcdserver: authentication is not enabled" => None,
            Err(Reason::WrongPassword(_)) => {
                return Err(self.error(Reason::WrongPassword(user.name.clone())));
            }
            Err(reason) => return Err(self.error(reason)),
        };
        Ok(current.clone())
    }

    async fn unary<Q, R>(
        &self,
        method: Method<Q, R>,
        request: Q,
        token: Option<Token>,
        limit: Duration,
    ) -> Result<R, Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut request = Request::new(request);
        // etcd stops working on a request whose client does not wait any more.
        request.set_timeout(limit);
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
        let mut grpc = self.connection.grpc(self.max_response);
        let answer = grpc.unary(request, method.path(), ProstCodec::<Q, R>::default());
        Ok(answer.await?.into_inner())
    }

    /// Opens a stream, and waits for the first response.
    pub(super) async fn stream<Q, R>(
        &self,
        method: Method<Q, R>,
        needs_leader: bool,
        first: Q,
        token: Option<Token>,
    ) -> Result<(OpenStream<Q, R>, R), Status>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let (requests, mut queue) = mpsc::unbounded_channel();
        // The receiver is here, so this cannot fail.
        let _ = requests.send(first);
        let queued = futures_util::stream::poll_fn(move |cx| queue.poll_recv(cx));
        let mut request = Request::new(queued);
        if needs_leader {
            let yes = MetadataValue::from_static("true");
            request.metadata_mut().insert("hasleader", yes);
        }
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
        let mut grpc = self.connection.grpc(self.max_response);
        let opened = grpc.streaming(request, method.path(), ProstCodec::<Q, R>::default());
        let mut stream = OpenStream {
            member: Arc::clone(&self.member),
            requests,
            responses: opened.await?.into_inner(),
        };
        let response = stream.receive().await?;
        Ok((stream, response))
    }
}

/// Ends a call after its time limit.
pub(super) async fn limited<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Reason> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) if classify::is_late(&status) => Err(Reason::Timeout(limit)),
        Ok(Err(status)) => Err(classify::call(&status)),
        Err(_) => Err(Reason::Timeout(limit)),
    }
}
