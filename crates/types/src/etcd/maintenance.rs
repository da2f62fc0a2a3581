//! Service `etcdserverpb.Maintenance`: state and alarms of a member.

use prost::{Enumeration, Message};

use super::kv::ResponseHeader;

/// Asks for the state of a member.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StatusRequest {}

/// Answer to [`StatusRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatusResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// Version of etcd, such as `3.7.3`.
    #[prost(string, tag = "2")]
    pub version: String,
    /// Size of the database, in bytes, free pages included.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// Member id of the leader, or 0.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    /// Alarms and other errors.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    /// Size of the database in use, in bytes.
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    /// The member does not vote yet.
    #[prost(bool, tag = "10")]
    pub is_learner: bool,
    /// Greatest size of the database, in bytes; 0 from an etcd before 3.6.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

/// Action of an [`AlarmRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum AlarmAction {
    /// List them.
    Get = 0,
    /// Raise one.
    Activate = 1,
    /// Clear one.
    Deactivate = 2,
}

/// Kinds of alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum AlarmType {
    /// All kinds, in a request.
    None = 0,
    /// The database has reached its quota.
    NoSpace = 1,
    /// The data of members differ.
    Corrupt = 2,
}

/// Lists or changes alarms.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmRequest {
    /// The action.
    #[prost(enumeration = "AlarmAction", tag = "1")]
    pub action: i32,
    /// The member. To list alarms, 0 stands for all; to raise or clear one, the member must be named.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The kind.
    #[prost(enumeration = "AlarmType", tag = "3")]
    pub alarm: i32,
}

/// Answer to [`AlarmRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AlarmResponse {
    /// State of the member.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The alarms that are raised.
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

/// An alarm of a member.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct AlarmMember {
    /// The member.
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    /// The kind.
    #[prost(enumeration = "AlarmType", tag = "2")]
    pub alarm: i32,
}
