//! The texts and codes with which etcd refuses a request.
//!
//! Source: `api/v3rpc/rpctypes/error.go` of etcd 3.7. Clients compare the texts.

use tonic::{Code, Status};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $code:ident $text:literal;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name() -> Status {
                Status::new(Code::$code, concat!("etcdserver: ", $text))
            }
        )*
    };
}

refusals! {
    /// A key is empty.
    empty_key: InvalidArgument "key is not provided";
    /// An operation of a transaction is absent, or a key that must exist does not.
    key_not_found: InvalidArgument "key not found";
    /// A value is there, although the old one shall be kept.
    value_provided: InvalidArgument "value is provided";
    /// A transaction has too many operations.
    too_many_operations: InvalidArgument "too many operations in txn request";
    /// A transaction writes a key twice.
    duplicate_key: InvalidArgument "duplicate key given in txn request";
    /// The request is larger than `--max-request-bytes`.
    too_large: InvalidArgument "request is too large";
    /// The revision is not in the history any more.
    compacted: OutOfRange "mvcc: required revision has been compacted";
    /// The revision does not exist yet.
    future_revision: OutOfRange "mvcc: required revision is a future revision";
    /// The alarm NOSPACE is raised.
    no_space: ResourceExhausted "mvcc: database space exceeded";
    /// The lease does not exist.
    lease_not_found: NotFound "requested lease not found";
    /// The id of the lease is in use.
    lease_exists: FailedPrecondition "lease already exists";
    /// The member knows no leader.
    no_leader: Unavailable "no leader";
    /// The leader has changed while the request was processed.
    leader_changed: Unavailable "leader changed";
    /// The request was not processed in time.
    timed_out: Unavailable "request timed out";
    /// The request has no token.
    no_user: InvalidArgument "user name is empty";
    /// The token is unknown or has expired.
    invalid_token: Unauthenticated "invalid auth token";
    /// Name or password are wrong.
    wrong_password: InvalidArgument "authentication failed, invalid user ID or password";
    /// Authentication is off.
    no_authentication: FailedPrecondition "authentication is not enabled";
    /// The user lacks a permission.
    permission_denied: PermissionDenied "permission denied";
}
