//! Load reporting (LRS): the counters of a client, and the machine that reports them to one server.
//!
//! ```text
//!          wanted               opened                     response
//!  Idle ───────────► Opening ───────────► Open ─────────────────────► Reporting ──┐ interval over: a report
//!   ▲                   │ failed           │ closed   node sent            │ ▲ ◄───┘
//!   │ backoff is over   ▼                  ▼                        closed │ └─ response: new settings
//!   └───────────── Backoff ◄───────────────┴───────────────────────────────┘
//! ```
//! A stream is wanted while a cluster is in use. When the last use ends, unreported counts are sent in a final report,
//! and the stream ends with an orderly end of the requests. Without a stream, the final report waits for one second.
//!
//! Three parts: [`ClusterLoad`] and [`LocalityLoad`] are the counters, which RPCs write without a lock;
//! [`MetricSelection`](crate::resource::MetricSelection) selects the backend metrics that are counted; [`Reporter`] is
//! the machine.
//!
//! A report has the counts since the report before. It is taken when it is written to an open stream. Without a stream,
//! counts add up, and the next report covers the gap (C-139). LRS has no acknowledgements: a report that was written to
//! a stream which breaks before the report arrives is lost, and its counts are not reported again.
//!
//! Rules: `lrs.proto` and `load_report.proto` of Envoy's API; gRFC A27, A32, A64, A85. Where they leave a case open,
//! C-core.

mod load;
mod metrics;
mod reporter;
mod settings;

pub use load::{ClusterLoad, DropCount, LocalityLoad};
pub use reporter::{LrsTransmit, Reporter, SEND_ALL_CLUSTERS};
pub use settings::ClusterKey;
