//! Discovery without a stream: the `Fetch*` methods and REST polls (S-56).
//!
//! A poll is a SotW session of one resource type that is asked once ([`answer`]). The version of the answer decides:
//!
//! ```text
//!  request ──▶ answer ──▶ version_info differs ──yes──▶ response
//!                │ ▲              │ no
//!                │ │ a resource   ▼
//!                │ └─ changed ── wait ──▶ time is over ──▶ not modified
//!                ▼
//!    poll clients: the session of this client, for status, CSDS and rollback (S-68, S-80)
//! ```

mod answer;
mod fetch;
mod request;
mod rest;
mod wait;

pub(super) use fetch::answer as fetch;
pub(super) use request::FetchRequest;
pub(crate) use rest::{deny_without_certificate, router as rest_router, wait_preferred};
