//! One cluster: keeps its endpoints connected, follows its priorities, makes its pickers.

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::{Connectivity, Priorities};
use oxds_core::resolve::ClusterConfig;
use oxds_core::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tonic::Status;

use super::members::{MemberState, Members, aggregate};
use crate::picker::{Cluster, Endpoint, Localities, Locality, Picked, Picker, PickerState};
use crate::pool::Pool;
use crate::snapshot::Known;
use crate::subchannel::{Change, ConnectError};

pub(super) struct ClusterDriver {
    pub(super) cluster: Arc<Cluster>,
    config: Arc<ClusterConfig>,
    places: Vec<Vec<Place>>,
    members: Members,
    priorities: Priorities,
    /// The picker in use is older than what is known.
    dirty: bool,
}

/// A locality of the assignment and its endpoints.
struct Place {
    weight: u32,
    endpoints: Vec<Arc<Picked>>,
}
