//! Discovery without a stream: the `Fetch*` methods and REST polls (S-56).
//!
//! The session of the client decides, as that of a stream does:
//!
//! ```text
//!  request ──▶ ACK or NACK of the last response ──▶ session has a response ──yes──▶ response
//!                                                     ▲         │ no
//!                                    a resource       │         ▼
//!                                    changed          └─────── wait ──▶ time is over ──▶ not modified
//! ```

mod fetch;
mod request;
mod rest;
mod wait;

pub(super) use fetch::answer as fetch;
pub(super) use request::FetchRequest;
pub(crate) use rest::{deny_without_certificate, router as rest_router, wait_preferred};
