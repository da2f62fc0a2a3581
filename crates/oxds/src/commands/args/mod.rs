//! Options that several commands share, or that are many: each file has a group of them, and what it reads from them.

pub(super) mod bootstrap_version;
pub(super) mod client_security;
pub(super) mod control_plane;
pub(super) mod dynamic_fields;
#[cfg(feature = "etcd")]
pub(super) mod etcd;
pub(super) mod http;
pub(super) mod lifecycle;
pub(super) mod limits;
pub(super) mod runtime;
pub(super) mod runtime_keys;
pub(super) mod schedule;
pub(super) mod server_security;
pub(super) mod source;
