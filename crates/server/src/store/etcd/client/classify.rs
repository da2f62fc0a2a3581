//! Reads the status of a failed call, and the reason of a canceled watch.

use std::error::Error;

use oxds_net::transport::{DialError, ForeignPreface};
use oxds_types::etcd::WatchResponse;
use tonic::{Code, Status};

use super::connection::NotSent;
use super::error::Reason;

/// The texts of etcd that are read. They are the same in all versions from 3.4 to 3.7, where codes are not.
///
/// Source: `api/v3rpc/rpctypes/error.go` of etcd.
fn known(text: &str) -> Option<Reason> {
    Some(match text {
        "etcdserver: mvcc: required revision has been compacted" => {
            Reason::Compacted { first: None }
        }
        "etcdserver: mvcc: required revision is a future revision" => Reason::FutureRevision,
        "etcdserver: mvcc: database space exceeded" => Reason::NoSpace,
        "etcdserver: requested lease not found" => Reason::LeaseNotFound,
        "etcdserver: request is too large" => Reason::RequestTooLarge,
        "etcdserver: too many operations in txn request" => Reason::TooManyOperations,
        "etcdserver: duplicate key given in txn request" => Reason::DuplicateKey,
        "etcdserver: corrupt cluster" => Reason::Corrupt,
        "etcdserver: no leader" => Reason::NoLeader,
        "etcdserver: rpc not supported for learner" => Reason::Learner,
        "etcdserver: permission denied" => Reason::PermissionDenied(String::new()),
        "etcdserver: user name is empty" => {
            Reason::Unauthenticated("etcd requires a user".to_owned())
        }
        "etcdserver: invalid auth token" => {
            Reason::Unauthenticated("etcd does not know the token any more".to_owned())
        }
        "etcdserver: revision of auth store is old" => {
            Reason::Unauthenticated("users or roles have changed".to_owned())
        }
        "etcdserver: authentication failed, invalid user ID or password" => {
            Reason::WrongPassword(String::new())
        }
        _ => return None,
    })
}

/// Returns whether etcd has given up the call because of its time limit.
pub(super) fn is_late(status: &Status) -> bool {
    // etcd 3.4 answers the text of Go's error with the code UNKNOWN.
    status.code() == Code::DeadlineExceeded || status.message() == "context deadline exceeded"
}

/// Returns the reason of a failed call.
pub(super) fn call(status: &Status) -> Reason {
    let text = status.message();
    if let Some(reason) = known(text) {
        return reason;
    }
    // tonic keeps the cause of a status that did not come from the server.
    if let Some(cause) = status.source() {
        return if cause.is::<NotSent>() {
            Reason::Unreachable(cause.to_string())
        } else {
            Reason::Disconnected(chain(cause))
        };
    }
    match status.code() {
        Code::OutOfRange if text.contains("message length too large") => Reason::ResponseTooLarge,
        // grpc-go has a limit of its own above that of etcd.
        Code::ResourceExhausted if text.contains("received message larger than max") => {
            Reason::RequestTooLarge
        }
        Code::Unimplemented => Reason::NotEtcd(format!("it answers {text:?}")),
        // The text of prost: some servers answer calls of any method.
        Code::Internal if text.starts_with("failed to decode Protobuf message") => {
            Reason::NotEtcd("its answer is not a message of etcd".to_owned())
        }
        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => {
            Reason::Unavailable(text.to_owned())
        }
        code => Reason::Other {
            code,
            message: text.to_owned(),
        },
    }
}

/// Returns why a watch has ended, or `None` if the response does not end it.
pub(super) fn canceled(response: &WatchResponse) -> Option<Reason> {
    if !response.canceled {
        return None;
    }
    // A compacted watch has no text, but the first revision that can be read.
    if response.compact_revision != 0 {
        let first = Some(response.compact_revision);
        return Some(Reason::Compacted { first });
    }
    // etcd writes `rpc error: code = PermissionDenied desc = etcdserver: permission denied`.
    let text = response.cancel_reason.as_str();
    let bare = text.rsplit_once(" desc = ").map_or(text, |(_, bare)| bare);
    Some(known(bare).unwrap_or_else(|| Reason::Other {
        code: Code::Cancelled,
        message: format!("the watch was canceled: {bare:?}"),
    }))
}

/// Part of rustls' text for an alert of the peer.
const ALERT: &str = "received fatal alert";

fn rejected(text: &str) -> String {
    format!("the member rejects this client's certificate: {text}")
}

/// Returns the reason why there is no connection.
pub(super) fn dial(
    error: &DialError,
    explain: impl Fn(&std::io::Error) -> Option<String>,
) -> Reason {
    match error {
        DialError::NotHttp2(preface) => not_etcd(preface),
        DialError::NoPreface => Reason::NoPreface,
        DialError::Security(cause) => Reason::Security(match cause.to_string() {
            text if text.contains(ALERT) => rejected(&text),
            text => explain(cause).unwrap_or(text),
        }),
        // With TLS 1.3 the server rejects the client's certificate after the client has finished its handshake.
        DialError::Handshake(cause) => match chain(&**cause) {
            text if text.contains(ALERT) => Reason::Security(rejected(&text)),
            text => Reason::Unreachable(text),
        },
        error => Reason::Unreachable(error.to_string()),
    }
}

fn not_etcd(preface: &ForeignPreface) -> Reason {
    match preface.bytes() {
        // RFC 8446 §5.1: an alert or a handshake record.
        [20..=23, 3, ..] => {
            Reason::Security("the member speaks TLS: expected https in its URL".to_owned())
        }
        _ => Reason::NotEtcd(preface.to_string()),
    }
}

/// Returns an error with its causes, as one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Wrappers often repeat the text of their cause.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::error::Blame;
    use super::*;

    #[test]
    fn g11_only_answers_that_exclude_an_effect_are_certain() {
        for (status, is_unknown) in [
            (Status::unavailable("etcdserver: request timed out"), true),
            (Status::unavailable("etcdserver: leader changed"), true),
            (
                Status::resource_exhausted("etcdserver: mvcc: database space exceeded"),
                true,
            ),
            (Status::unknown("surprise"), true),
            (
                Status::invalid_argument("etcdserver: request is too large"),
                false,
            ),
            (
                Status::permission_denied("etcdserver: permission denied"),
                false,
            ),
            (
                Status::unauthenticated("etcdserver: invalid auth token"),
                false,
            ),
        ] {
            assert_eq!(call(&status).is_outcome_unknown(), is_unknown, "{status:?}");
        }
    }

    #[test]
    fn g24_time_limit_is_known_in_both_forms() {
        assert!(is_late(&Status::deadline_exceeded("late")));
        assert!(is_late(&Status::unknown("context deadline exceeded")));
        assert!(!is_late(&Status::unknown("surprise")));
    }

    #[test]
    fn g26_full_database_names_the_remedy() {
        let reason = call(&Status::resource_exhausted(
            "etcdserver: mvcc: database space exceeded",
        ));
        assert_eq!(reason.blame(), Blame::Operator);
        let text = reason.to_string();
        for step in ["compact", "defragment", "disarm"] {
            assert!(text.contains(step), "{text}");
        }
    }

    #[test]
    fn g9_both_limits_of_a_request_are_known() {
        for status in [
            Status::invalid_argument("etcdserver: request is too large"),
            Status::resource_exhausted("grpc: received message larger than max (3 vs. 2)"),
        ] {
            assert_eq!(call(&status), Reason::RequestTooLarge);
        }
    }

    #[test]
    fn g18_compacted_watch_has_the_first_revision() {
        let response = WatchResponse {
            canceled: true,
            compact_revision: 7,
            ..WatchResponse::default()
        };
        assert_eq!(
            canceled(&response),
            Some(Reason::Compacted { first: Some(7) })
        );
        assert_eq!(canceled(&WatchResponse::default()), None);
    }

    #[test]
    fn g31_cancel_reason_is_read_with_and_without_code() {
        for reason in [
            "etcdserver: permission denied",
            "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
        ] {
            let response = WatchResponse {
                canceled: true,
                cancel_reason: reason.to_owned(),
                ..WatchResponse::default()
            };
            assert_eq!(
                canceled(&response),
                Some(Reason::PermissionDenied(String::new()))
            );
        }
    }
}
