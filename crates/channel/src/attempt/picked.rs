//! The result of a pick, as applications see it: the endpoint of an RPC, or the reason why it was dropped.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::uri::Authority;
use tonic::Status;

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
    /// Address and port of the endpoint; the one that is connected, if it has several.
    pub address: SocketAddr,
    /// Host name of the endpoint, for routes that rewrite the authority; `None` also if it cannot be an authority.
    pub(crate) authority: Option<Arc<Authority>>,
}

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (cluster {})", self.address, self.cluster)
    }
}

/// Extension of a failed response: the reason why the channel dropped the RPC. Present if the channel was
/// [built](crate::Builder::report_picks) to report picks. It is also the source of the RPC's status inside the channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("cluster {cluster}: dropped{}", self.reason())]
#[non_exhaustive]
pub struct Dropped {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// Category of the assignment's `drop_overloads`; `None` if the limit of concurrent requests was reached (gRFC
    /// A32).
    pub category: Option<Arc<str>>,
    max_requests: u32,
}

impl Dropped {
    /// Describes a drop in a category.
    pub(crate) fn in_category(cluster: &Arc<str>, category: &Arc<str>) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            category: Some(Arc::clone(category)),
            max_requests: 0,
        }
    }

    /// Describes a drop because this number of requests is in progress.
    pub(crate) fn at_limit(cluster: &Arc<str>, max_requests: u32) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            category: None,
            max_requests,
        }
    }

    /// Returns the status of the RPC.
    pub(crate) fn into_status(self) -> Status {
        let mut status = Status::unavailable(self.to_string());
        status.set_source(Arc::new(self));
        status
    }

    fn reason(&self) -> String {
        match &self.category {
            Some(category) => format!(" as {category}"),
            None => format!(", {} requests are in progress", self.max_requests),
        }
    }
}
