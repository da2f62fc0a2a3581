//! Load reporting (LRS): what a client counts, and the machine that reports it to one server.
//!
//! ```text
//!          wanted               opened                     response
//!  Idle ───────────► Opening ───────────► Open ─────────────────────► Reporting ──┐ due: a report
//!   ▲                   │ failed           │ closed   says who it is       │ ▲ ◄───┘
//!   │ time has come     ▼                  ▼                        closed │ └─ response: other orders
//!   └───────────── Backoff ◄───────────────┴───────────────────────────────┘
//! ```
//! A stream is wanted while a cluster is in use. When the last use ends, what is still unreported goes out as a final
//! report and the stream ends in good order; where there is no stream to put it on, one that comes within a second will do.
//!
//! Three parts: [`ClusterLoad`] and [`LocalityLoad`] are the counters, which RPCs write and nothing on their way locks;
//! [`MetricSelection`] says which of a backend's own metrics are counted; [`Reporter`] is the machine.
//!
//! A report says what happened since the one before. It is taken when it is written to an open stream: as long as there is
//! none, counts add up, and the next report covers the gap (C-139). LRS has no acknowledgements, so a report that was
//! written to a stream that breaks before it arrives is lost, and never told twice.
//!
//! Rules: `lrs.proto` and `load_report.proto` of Envoy's API; gRFC A27, A32, A64, A85; where they are silent, C-core.

mod load;
mod metrics;
mod orders;
mod reporter;

use std::sync::Arc;

pub use load::{ClusterLoad, DropCount, LocalityLoad};
pub use metrics::MetricSelection;
pub use reporter::{LrsTransmit, Reporter};

/// The client feature that says: `send_all_clusters` is understood (`lrs.proto`).
pub const SEND_ALL_CLUSTERS: &str = "envoy.lrs.supports_send_all_clusters";

/// What load is reported of (C-137).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// Its `eds_service_name`; empty where it has none.
    pub service: Arc<str>,
}

impl ClusterKey {
    /// A cluster and its `eds_service_name`. A service that is called as its cluster is none: EDS takes the cluster's
    /// name where no other is given, so the two mean the same.
    #[must_use]
    pub fn new(cluster: impl Into<Arc<str>>, service: impl Into<Arc<str>>) -> Self {
        let (cluster, mut service) = (cluster.into(), service.into());
        if service == cluster {
            service = Arc::default();
        }
        Self { cluster, service }
    }
}
