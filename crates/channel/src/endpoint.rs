//! An endpoint of an assignment: its identity, and its entry in the status.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::subchannel::Subchannel;

/// The endpoint that served an RPC, with its cluster, locality and priority.
///
/// It is in the extensions of the response, as `Arc<Picked>`, if the channel was
/// [built](crate::Builder::report_picks) to report picks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Picked {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// The endpoint's locality, as `region/zone/sub_zone`.
    pub locality: Arc<str>,
    /// The locality's priority; 0 is the highest.
    pub priority: usize,
    /// Address and port of the endpoint.
    pub address: SocketAddr,
}

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cluster {})", self.address, self.cluster)
    }
}

/// An endpoint of the assignment, and its subchannel if its priority was tried.
#[derive(Clone, Debug)]
pub(crate) struct EndpointEntry {
    pub(crate) picked: Arc<Picked>,
    pub(crate) subchannel: Option<Arc<Subchannel>>,
}
