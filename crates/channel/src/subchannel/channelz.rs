//! The channelz entries of subchannels and their connections (gRFC A14).

use std::sync::Arc;

use oxds_client::channelz::{self, Calls, ChannelSnapshot, Id};
use oxds_net::transport::SocketAddresses;

use super::{Subchannel, SubchannelState};
use crate::stream::Connection;

impl channelz::SubchannelEntry for Subchannel {
    fn id(&self) -> Id {
        self.shared.id
    }

    fn snapshot(&self) -> ChannelSnapshot {
        ChannelSnapshot {
            target: self.shared.address.to_string(),
            state: self.state().connectivity(),
            calls: self.shared.calls.calls(),
            created: self.shared.created,
        }
    }

    fn sockets(&self) -> Vec<Arc<dyn channelz::SocketEntry>> {
        let SubchannelState::Ready(connections) = self.state() else {
            return Vec::new();
        };
        let sockets = connections.into_iter();
        sockets
            .map(|connection| connection as Arc<dyn channelz::SocketEntry>)
            .collect()
    }
}

impl channelz::SocketEntry for Connection {
    fn id(&self) -> Id {
        self.id
    }

    fn addresses(&self) -> SocketAddresses {
        self.addresses.clone()
    }

    fn streams(&self) -> Calls {
        self.streams()
    }
}
