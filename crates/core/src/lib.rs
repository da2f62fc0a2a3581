//! The xDS protocol as pure state machines.
//!
//! No sockets, tasks, clocks or randomness in here: time and random numbers come in as arguments, effects come out
//! as values. Every machine has the same shape:
//!
//! - commands from the application (`subscribe`, `unsubscribe`, …);
//! - `handle_*` for what arrives: a message, a timer that fired;
//! - `poll_transmit`, `poll_event` and `poll_timeout` for what must happen next. After any command or `handle_*`
//!   call, poll `poll_transmit` until it returns `None`, then `poll_event` until it returns `None`, then arm one
//!   timer for `poll_timeout`.
//!
//! | module | is |
//! |---|---|
//! | [`time`] | instants without a clock |
//! | [`snapshot`] | what a server serves: immutable, persistent, encoded once |
//! | [`group`] | resources that only some nodes see |
//! | [`subscription`] | what a client asked for: one set of rules for both protocol variants |
//! | [`session`] | the server's machine: one per stream |
//! | [`ads`] | the client's machine: one per xDS server |
//! | [`lrs`] | what a client counts, and the machine that reports it |
//! | [`poll`] | when a server without a stream is asked, and what |
//! | [`observe`] | a client that looks on: resources of any kind, as bytes |
//! | [`resource`] | parse-don't-validate views of the resources a data plane uses |
//! | [`resolve`] | LDS → RDS → CDS → EDS into one configuration |
//! | [`rollback`] | a change that clients refuse, and what is served instead |
//! | [`lb`] | pure pickers |
//!
//! It is not a server, not a client and not a runtime: those are `oxds-server`, `oxds-client` and `oxds-channel`,
//! and they are thin.

pub mod ads;
pub mod group;
pub mod lb;
pub mod lrs;
pub mod observe;
pub mod poll;
pub mod resolve;
pub mod resource;
pub mod rollback;
pub mod session;
pub mod snapshot;
pub mod subscription;
pub mod time;
