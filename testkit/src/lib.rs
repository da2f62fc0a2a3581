//! End-to-end tests: client, channel and server together, over real sockets.

/// The examples of the front page compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct FrontPage;
