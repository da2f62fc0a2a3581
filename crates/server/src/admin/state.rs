//! State of the admin HTTP port.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::shared_views::SharedViews;
use crate::context::Context;
use crate::load::LoadReports;
use crate::store::Health;

/// State that the admin HTTP port reads.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) context: Arc<Context>,
    pub(crate) health: Arc<Health>,
    pub(crate) load_reports: LoadReports,
    pub(crate) registry: Registry,
    /// Latest views of all readers.
    pub(crate) views: SharedViews,
}
