//! The channelz entries of subchannels and their connections (gRFC A14).

use std::sync::Arc;

use oxds_client::channelz::{self, Calls, Id, Node};
use oxds_client::transport::Ends;

use super::{Connection, Subchannel, SubchannelState};

impl channelz::Subchannel for Subchannel {
    fn id(&self) -> Id {
        self.shared.id
    }

    fn node(&self) -> Node {
        Node {
            target: self.shared.address.to_string(),
            state: self.state().connectivity(),
            calls: self.shared.calls.calls(),
            created: self.shared.created,
        }
    }

    fn sockets(&self) -> Vec<Arc<dyn channelz::Socket>> {
        let SubchannelState::Ready(connections) = self.state() else {
            return Vec::new();
        };
        let sockets = connections.into_iter();
        sockets
            .map(|connection| connection as Arc<dyn channelz::Socket>)
            .collect()
    }
}

impl channelz::Socket for Connection {
    fn id(&self) -> Id {
        self.id
    }

    fn ends(&self) -> Ends {
        self.ends.clone()
    }

    fn streams(&self) -> Calls {
        self.streams()
    }
}
