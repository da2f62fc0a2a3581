//! CSDS: what every client has, as seen from here (S-68).
//!
//! The same state as `/status.json`, by resource, for tools that speak the standard service. Whoever shares a connection
//! and a node id is one client here, whether it uses one stream or a stream for each kind.
//!
//! | `config_status` | `client_status` | when |
//! |---|---|---|
//! | `SYNCED` | `ACKED` | the client accepted what is served now |
//! | `STALE` | `ACKED`, `REQUESTED` | it has, or was sent, something else; `ACKED` if it accepted some version |
//! | `NOT_SENT` | `REQUESTED`, `DOES_NOT_EXIST` | it asked, and was sent nothing: not yet, or there is nothing of that name |
//! | `ERROR` | `NACKED` | it refused what it was sent last; `error_state` has its words |
//! | `ERROR` | any | clients refused what the store has, and something else is served (S-80): `error_state` says what |
//!
//! Contents are shown only where the client is known to have just those, and those of secrets never.

mod matcher;
mod service;
mod state;

pub(crate) use service::StatusService;
