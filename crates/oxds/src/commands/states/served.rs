//! The state that a control plane serves to a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use oxds_client::Bootstrap;
use oxds_core::preview::State;
use oxds_core::snapshot::Resource;
use oxds_types::ResourceType;
use oxds_types::reference::references;

use crate::commands::fetch::{FetchScope, fetch};
use crate::exit::Failure;

/// Fetches all resources of these types. `numbers` has how many resources of a type there are at least, if that is
/// known.
pub(crate) async fn of_control_plane(
    limit: Duration,
    bootstrap: &Bootstrap,
    types: &BTreeSet<ResourceType>,
    numbers: &BTreeMap<ResourceType, usize>,
) -> Result<State, Failure> {
    let mut state = State::default();
    for resource_type in types {
        let wanted = FetchScope {
            names: BTreeSet::new(),
            at_least: numbers.get(resource_type).copied().unwrap_or(0),
        };
        let found = fetch(limit, bootstrap, resource_type, wanted).await?;
        for (name, value) in found {
            let resource = Resource::new(resource_type.clone(), name, &value)
                .with_references(references(resource_type, &value));
            state.put(None, Arc::new(resource));
        }
    }
    Ok(state)
}
