//! The endpoints of a cluster, for the status and channelz.
//!
//! The driver puts a table into each picker. It shares the driver's lists, so that a picker does not pay for a status
//! that is not read; the entries are made when the status is read.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::policy::Policy;
use smallvec::SmallVec;

use crate::endpoint::{Addresses, Ejected, EndpointEntry, PickChildren};

/// All endpoints of a cluster's assignments.
#[derive(Debug, Default)]
pub(crate) struct EndpointTable {
    /// The endpoints of each priority, the highest first.
    pub(crate) levels: Vec<LevelEndpoints>,
    /// Entries of the endpoints that only sessions use (gRFC A55).
    pub(crate) draining: Vec<EndpointEntry>,
}

/// The endpoints of a priority.
#[derive(Debug)]
pub(crate) struct LevelEndpoints {
    pub(crate) endpoints: Arc<[Addresses]>,
    /// The policy with its children, if the priority was tried.
    pub(crate) children: Option<(Arc<Policy>, PickChildren)>,
    /// Ejected endpoints of the priority's cluster, by first address.
    pub(crate) ejected: Arc<HashMap<SocketAddr, Ejected>>,
}

impl EndpointTable {
    /// Makes the entries: the priorities in their order, then the draining endpoints.
    pub(crate) fn entries(&self) -> Vec<EndpointEntry> {
        let of_levels = self.levels.iter().flat_map(LevelEndpoints::entries);
        of_levels.chain(self.draining.iter().cloned()).collect()
    }
}

impl LevelEndpoints {
    fn entries(&self) -> Vec<EndpointEntry> {
        let entry = |endpoint: &Addresses| {
            let first = endpoint.first()?;
            Some(EndpointEntry {
                picked: Arc::clone(&first.picked),
                child: None,
                ejected: self.ejected.get(&first.picked.address).copied(),
                is_draining: false,
            })
        };
        // An endpoint has at least one address.
        let mut entries: Vec<_> = self.endpoints.iter().filter_map(entry).collect();
        let Some((policy, children)) = &self.children else {
            return entries;
        };
        for (group, child) in policy.children().iter().zip(&**children) {
            for (index, address) in (0..).zip(&group.addresses) {
                if let Some(entry) = entries.get_mut(address.endpoint) {
                    let new = || (Arc::clone(&child.cell), SmallVec::new());
                    entry.child.get_or_insert_with(new).1.push(index);
                }
            }
        }
        entries
    }
}
