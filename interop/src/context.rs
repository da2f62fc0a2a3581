//! Resources of one scenario.

use std::path::PathBuf;
use std::sync::Arc;

use crate::peers::Peers;

/// Resources of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) peers: Arc<Peers>,
    /// The scenario's own folder: configuration, logs, bootstrap files.
    pub(crate) dir: PathBuf,
}
