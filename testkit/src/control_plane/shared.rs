//! State that the handle and the connections share.

use tokio::sync::{mpsc, watch};

use super::stream::{AdsStream, LoadStream};

/// Behaviour towards clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Manners {
    /// Hands streams to the test.
    #[default]
    Hand,
    /// Rejects every stream with this gRPC status.
    Refuse(tonic::Code, String),
    /// Accepts sockets but never writes a byte to them, nor to those that are open already.
    Silent,
}

/// State that the handle and the connections share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) manners: watch::Sender<Manners>,
    pub(super) connections: watch::Sender<Connections>,
    pub(super) streams: mpsc::UnboundedSender<AdsStream>,
    pub(super) loads: mpsc::UnboundedSender<LoadStream>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connections {
    pub(super) open: usize,
    pub(super) accepted: usize,
}
