//! Origin of a resource: where its store has it from.

use std::path::Path;
use std::sync::Arc;

use oxds_types::Position;

/// Document that a resource comes from, and its position there. Clients never see it: it is for operators, and for
/// stores that continue after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceOrigin {
    /// Path of the file, or key, as the operator knows it.
    pub document: Arc<Path>,
    /// Line and column of the resource, if known.
    pub position: Option<Position>,
}
