//! A channel, as channelz shows it (gRFC A14).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_client::channelz::{self, Id, Node, Subchannel as _};
use oxds_core::lb::Connectivity;

use crate::picker::PickerState;
use crate::routing::{Routing, Shared};

impl channelz::Channel for Shared {
    fn id(&self) -> Id {
        self.id
    }

    fn node(&self) -> Node {
        Node {
            target: self.target.to_string(),
            state: connectivity(&self.routing()),
            calls: self.calls.calls(),
            created: self.made,
        }
    }

    /// Those that the configuration in use has connected to, each once, however many clusters share it.
    fn subchannels(&self) -> Vec<Arc<dyn channelz::Subchannel>> {
        let routing = self.routing();
        let Routing::Table(table) = &*routing else {
            return Vec::new();
        };
        let mut found = BTreeMap::new();
        for cluster in &table.clusters {
            let picker = cluster.picker();
            for subchannel in picker
                .known
                .iter()
                .filter_map(|known| known.subchannel.as_ref())
            {
                let shown = Arc::clone(subchannel) as Arc<dyn channelz::Subchannel>;
                found.insert(subchannel.id(), shown);
            }
        }
        found.into_values().collect()
    }
}

/// Ready if one cluster is, failed only if all are.
fn connectivity(routing: &Routing) -> Connectivity {
    let table = match routing {
        Routing::Waiting => return Connectivity::Connecting,
        Routing::Failed(_) => return Connectivity::TransientFailure,
        Routing::Table(table) => table,
    };
    let states = table
        .clusters
        .iter()
        .map(|cluster| match cluster.picker().state {
            PickerState::Ready(_) => Connectivity::Ready,
            PickerState::Connecting | PickerState::Gone => Connectivity::Connecting,
            PickerState::Failed(_) => Connectivity::TransientFailure,
        });
    Connectivity::of_round_robin(states)
}
