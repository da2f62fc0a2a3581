//! The channelz entry of a channel (gRFC A14).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_client::channelz::{self, ChannelSnapshot, Id};
use oxds_core::lb::Connectivity;

use crate::routing::{ChannelShared, Routing};

impl channelz::ChannelEntry for ChannelShared {
    fn id(&self) -> Id {
        self.id
    }

    fn snapshot(&self) -> ChannelSnapshot {
        ChannelSnapshot {
            target: self.target.to_string(),
            state: connectivity(&self.routing()),
            calls: self.calls.calls(),
            created: self.created,
        }
    }

    /// Returns the subchannels of the configuration in use, each once even if several clusters share it.
    fn subchannels(&self) -> Vec<Arc<dyn channelz::SubchannelEntry>> {
        let routing = self.routing();
        let Routing::Table(table) = &*routing else {
            return Vec::new();
        };
        let mut found = BTreeMap::new();
        for cluster in &table.clusters {
            let picker = cluster.picker();
            let entries = picker.endpoints.entries();
            for subchannel in entries.iter().flat_map(|entry| picker.subchannels(entry)) {
                let subchannel = subchannel as Arc<dyn channelz::SubchannelEntry>;
                found.insert(subchannel.id(), subchannel);
            }
        }
        found.into_values().collect()
    }
}

/// Aggregates the states of the clusters: ready if one is, in transient failure only if all are.
fn connectivity(routing: &Routing) -> Connectivity {
    let table = match routing {
        Routing::Waiting => return Connectivity::Connecting,
        Routing::Failed(_) => return Connectivity::TransientFailure,
        Routing::Table(table) => table,
    };
    let clusters = table.clusters.iter();
    let states = clusters.map(|cluster| cluster.picker().connectivity());
    Connectivity::of_round_robin(states)
}
