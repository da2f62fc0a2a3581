//! Serving mode of a listening address (gRFC A36).

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Serving mode of a listening address.
///
/// ```text
///  Starting ──► Serving ◄──► NotServing
///      └──────────────────────────▲
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServingMode {
    /// The control plane has not answered yet. The address does not listen.
    Starting,
    /// Connections are accepted.
    Serving,
    /// The address does not listen. The reason is a text for operators.
    NotServing(Arc<str>),
}

impl fmt::Display for ServingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Serving => f.write_str("serving"),
            Self::NotServing(reason) => write!(f, "not serving: {reason}"),
        }
    }
}

/// Function that gets the address and its new mode.
type Callback = dyn Fn(SocketAddr, &ServingMode) + Send + Sync;

/// Callback on each change of the serving mode.
#[derive(Clone)]
pub(crate) struct ModeCallback(Arc<Callback>);

impl ModeCallback {
    pub(crate) fn new(call: impl Fn(SocketAddr, &ServingMode) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn call(&self, address: SocketAddr, mode: &ServingMode) {
        (self.0)(address, mode);
    }
}

impl fmt::Debug for ModeCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModeCallback")
    }
}
