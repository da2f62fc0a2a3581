//! CSDS: the resources of each client, as this server knows them (S-68).
//!
//! The service shows the same state as `/status.json`, by resource, for tools that use the standard API. Streams with
//! the same connection and node id are one client, whether it uses ADS or a stream per resource type.
//!
//! | `config_status` | `client_status` | when |
//! |---|---|---|
//! | `SYNCED` | `ACKED` | the client accepted the served version |
//! | `STALE` | `ACKED`, `REQUESTED` | the client has, or was sent, another version; `ACKED` if it accepted one |
//! | `NOT_SENT` | `REQUESTED`, `DOES_NOT_EXIST` | nothing was sent: not yet, or the resource does not exist |
//! | `ERROR` | `NACKED` | the client NACKed the latest version; `error_state` has its reason |
//! | `ERROR` | any | the store's version was rolled back after NACKs (S-80); `error_state` has it and the reason |
//!
//! Contents are shown only if the client is known to have exactly these, and never for secrets.

mod matcher;
mod rope;
mod service;
mod state;

pub(crate) use service::StatusService;
