//! The permission that a request needs, for the operator who has to grant it (G-31).

use std::fmt::Write as _;

use oxds_types::etcd::{
    AlarmRequest, CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest,
    PutRequest, RangeRequest, Request, StatusRequest, TxnRequest, WatchCreateRequest,
};

/// A request of etcd's API. Its access is a part of the error if the user may not do it.
pub(super) trait Access {
    /// Returns the permission as a phrase, such as `READ on the keys from "/a/" to "/a0"`.
    fn access(&self) -> String {
        "the right to administer the cluster".to_owned()
    }
}

impl Access for RangeRequest {
    fn access(&self) -> String {
        format!("READ on {}", keys(&self.key, &self.range_end))
    }
}

impl Access for WatchCreateRequest {
    fn access(&self) -> String {
        format!("READ on {}", keys(&self.key, &self.range_end))
    }
}

impl Access for PutRequest {
    fn access(&self) -> String {
        format!("WRITE on {}", keys(&self.key, b""))
    }
}

impl Access for DeleteRangeRequest {
    fn access(&self) -> String {
        format!("WRITE on {}", keys(&self.key, &self.range_end))
    }
}

impl Access for TxnRequest {
    /// A transaction may have thousands of keys: names those of its first write, or else of its first condition or
    /// read.
    fn access(&self) -> String {
        let operations = || self.success.iter().chain(&self.failure);
        let mut reads = None;
        for operation in operations() {
            match &operation.request {
                Some(Request::Put(put)) => return put.access(),
                Some(Request::DeleteRange(delete)) => return delete.access(),
                Some(Request::Txn(nested)) => return nested.access(),
                Some(Request::Range(range)) => reads = reads.or(Some(range.access())),
                None => {}
            }
        }
        let compares = self.compare.first();
        let compares = compares.map(|compare| format!("READ on {}", keys(&compare.key, b"")));
        reads.or(compares).unwrap_or_else(|| "READ".to_owned())
    }
}

impl Access for AlarmRequest {}
impl Access for CompactionRequest {}
impl Access for LeaseGrantRequest {}
impl Access for StatusRequest {}

impl Access for LeaseRevokeRequest {
    fn access(&self) -> String {
        "WRITE on all keys of the lease".to_owned()
    }
}

/// Returns a range as text. Keys are mostly text, and other bytes are escaped.
fn keys(key: &[u8], end: &[u8]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match end {
        [] => write!(text, "the key \"{}\"", key.escape_ascii()),
        [0] => write!(text, "all keys from \"{}\"", key.escape_ascii()),
        _ => write!(
            text,
            "the keys from \"{}\" to \"{}\"",
            key.escape_ascii(),
            end.escape_ascii()
        ),
    };
    text
}

#[cfg(test)]
mod tests {
    use oxds_types::etcd::RequestOp;

    use super::*;

    #[test]
    fn g31_missing_permission_names_the_keys() {
        let read = RangeRequest {
            key: "/a/".into(),
            range_end: "/a0".into(),
            ..RangeRequest::default()
        };
        assert_eq!(read.access(), r#"READ on the keys from "/a/" to "/a0""#);
        let put = PutRequest {
            key: "/a/x".into(),
            ..PutRequest::default()
        };
        let operation = |request| RequestOp {
            request: Some(request),
        };
        let txn = TxnRequest {
            success: vec![
                operation(Request::Range(read)),
                operation(Request::Put(put)),
            ],
            ..TxnRequest::default()
        };
        assert_eq!(txn.access(), r#"WRITE on the key "/a/x""#);
    }
}
