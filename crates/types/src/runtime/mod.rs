//! Runtime: settings that operators override while a program runs (V-47).
//!
//! ```text
//!  environment, static, disk, command line, admin, RTDS ──► Layer ──► Snapshot ──► get, flag
//! ```
//!
//! Layers are merged as in Envoy's `layered_runtime`: the last layer that has a key decides its value. Keys are dotted
//! paths, `upstream.healthy_panic_threshold`. A [`Snapshot`] is immutable; a change makes a new one.
//!
//! | file | content |
//! |---|---|
//! | `value` | [`Value`]: how text and numbers are read |
//! | `layer` | [`Layer`]: the keys of one source, and their limits |
//! | `snapshot` | [`Snapshot`]: the layers as one |
//! | `readers` | [`Readers`]: the parts of a program that have read a key |
//! | `handle` | [`Runtime`]: the current snapshot, its changes and subscriptions |
//! | `disk` | `Disk`: layers in a file, or in a folder in Envoy's layout |
//! | `config` | `Layered`: Envoy's `layered_runtime` |
//! | `static_cluster` | addresses of the static clusters of an Envoy bootstrap |

#[cfg(feature = "server")]
mod config;
#[cfg(feature = "server")]
mod disk;
mod handle;
mod layer;
mod readers;
mod snapshot;
#[cfg(feature = "server")]
mod static_cluster;
#[cfg(test)]
mod tests;
mod value;

#[cfg(feature = "server")]
pub use config::{LayerConfig, Layered};
#[cfg(feature = "server")]
pub use disk::{Disk, DiskError, DiskState};
pub use handle::{Counts, LayerState, ModifyError, Runtime, Subscription, UnknownLayer};
pub use layer::{
    ENVIRONMENT_PREFIX, Layer, LayerError, MAX_BYTES, MAX_KEY, MAX_KEYS, MAX_VALUE, Source,
};
pub use readers::Readers;
pub use snapshot::{Entry, Snapshot};
pub use value::{Denominator, Value};
