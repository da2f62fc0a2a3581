//! Side of an RPC on which HTTP filters run.

/// Side of an RPC on which HTTP filters run. Each filter supports one side or both (gRFC A39).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Filters of an API listener.
    Client,
    /// Filters of a filter chain.
    Server,
}
