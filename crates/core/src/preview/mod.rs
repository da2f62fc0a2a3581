//! A change before it is served: what differs, in which order a client would get it, and what is dangerous in it.
//!
//! ```text
//!   State (old) ─┬─changes──▶ Change: group, type, name, old and new resource
//!   State (new) ─┤
//!                ├─dangers──▶ Danger: a type that loses all resources, a removed cluster that is still named, …
//!                └─sending──▶ Sending: the responses in their order, and what each waited for
//! ```
//! The order is not a copy of the rules: [`sending`] runs a [`Session`](crate::session::Session) against a model of a
//! client, on a clock that only the model moves.

mod change;
mod client;
mod danger;
mod relevant;
mod sending;
mod state;

pub use change::{Change, ChangeCounts, ChangeKind, Changes};
pub use danger::Danger;
pub use sending::{Sending, SentResource, Step, Why, sending};
pub use state::{GroupState, Resources, State};
