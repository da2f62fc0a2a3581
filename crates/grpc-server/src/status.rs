//! State of a server, for people.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use crate::mode::ServingMode;

/// State of a server at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Addresses, in the order in which they were bound.
    pub listeners: Vec<ListenerStatus>,
}

/// State of a listening address at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerStatus {
    /// Address.
    pub address: SocketAddr,
    /// Name of its listener resource.
    pub listener: Arc<str>,
    /// Serving mode.
    pub mode: ServingMode,
    /// Number of listener versions that have been in use.
    pub generation: u64,
    /// Open connections whose handshake is complete.
    pub connections: usize,
    /// Those of them that must end: their listener was replaced or deleted, or the server shuts down.
    pub draining: usize,
    /// Connections whose handshake is not complete.
    pub handshakes: usize,
}

/// State of a listening address, as its tasks write it.
#[derive(Debug)]
pub(crate) struct ListenerState {
    pub(crate) address: SocketAddr,
    pub(crate) listener: Arc<str>,
    pub(crate) mode: ArcSwap<ServingMode>,
    pub(crate) generation: AtomicU64,
    pub(crate) connections: AtomicUsize,
    pub(crate) draining: AtomicUsize,
    pub(crate) handshakes: AtomicUsize,
}

/// A unit of a count, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    state: Arc<ListenerState>,
    of: fn(&ListenerState) -> &AtomicUsize,
}

impl ListenerState {
    pub(crate) fn new(address: SocketAddr, listener: Arc<str>) -> Self {
        Self {
            address,
            listener,
            mode: ArcSwap::from_pointee(ServingMode::Starting),
            generation: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            draining: AtomicUsize::new(0),
            handshakes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn status(&self) -> ListenerStatus {
        // Relaxed, as everywhere: the numbers synchronize no other data.
        ListenerStatus {
            address: self.address,
            listener: Arc::clone(&self.listener),
            mode: ServingMode::clone(&self.mode.load()),
            generation: self.generation.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            draining: self.draining.load(Ordering::Relaxed),
            handshakes: self.handshakes.load(Ordering::Relaxed),
        }
    }
}

impl Counted {
    pub(crate) fn new(state: &Arc<ListenerState>, of: fn(&ListenerState) -> &AtomicUsize) -> Self {
        of(state).fetch_add(1, Ordering::Relaxed);
        Self {
            state: Arc::clone(state),
            of,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.of)(&self.state).fetch_sub(1, Ordering::Relaxed);
    }
}
