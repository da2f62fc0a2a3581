//! State that an earlier process saved.

use std::sync::Arc;

use crate::etcd::entry::Place;
use crate::etcd::head::Head;
use crate::etcd::names::Segment;
use crate::group::NodeMatcher;
use crate::snapshot::Resource;

/// State that an earlier process served, as it was saved on disk.
#[derive(Debug, Default)]
pub struct SavedState {
    /// Heads that vouch for the state, of all lanes.
    pub heads: Vec<(Segment, Head)>,
    /// Resources with their places.
    pub resources: Vec<(Place, Arc<Resource>)>,
    /// Groups with their matchers.
    pub matchers: Vec<(Segment, NodeMatcher)>,
}
