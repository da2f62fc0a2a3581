//! Channelz state of the connection to a control plane: a channel with one subchannel, whose calls are the streams.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use oxds_core::lb::Connectivity;
use oxds_net::transport::SocketAddresses;

use crate::channelz::{
    CallCounter, CallOutcome, Calls, ChannelEntry, ChannelSnapshot, Id, SocketEntry,
    SubchannelEntry,
};

/// Channelz channel of a server. It exists from the first request to the server until no resource is requested from it.
#[derive(Debug)]
pub(super) struct ServerChannel {
    id: Id,
    subchannel: Arc<ServerSubchannel>,
}

#[derive(Debug)]
struct ServerSubchannel {
    id: Id,
    uri: String,
    created: SystemTime,
    calls: CallCounter,
    connection: Mutex<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    state: Connectivity,
    socket: Option<Arc<ServerSocket>>,
}

/// A connection with one stream.
#[derive(Debug)]
struct ServerSocket {
    id: Id,
    addresses: SocketAddresses,
}

impl ServerChannel {
    pub(super) fn new(uri: &str) -> Arc<Self> {
        let subchannel = ServerSubchannel {
            id: Id::next(),
            uri: uri.to_owned(),
            created: SystemTime::now(),
            calls: CallCounter::default(),
            connection: Mutex::new(ConnectionState {
                state: Connectivity::Idle,
                socket: None,
            }),
        };
        Arc::new(Self {
            id: Id::next(),
            subchannel: Arc::new(subchannel),
        })
    }

    pub(super) fn connecting(&self) {
        self.subchannel.lock().state = Connectivity::Connecting;
    }

    /// Records a connection. Its stream starts with it.
    pub(super) fn opened(&self, addresses: SocketAddresses) {
        let mut connection = self.subchannel.lock();
        connection.state = Connectivity::Ready;
        connection.socket = Some(Arc::new(ServerSocket {
            id: Id::next(),
            addresses,
        }));
        self.subchannel.calls.begin();
    }

    /// Records the end of the connection, or of the attempt to connect.
    pub(super) fn closed(&self) {
        let mut connection = self.subchannel.lock();
        connection.state = Connectivity::TransientFailure;
        // Without a connection, no call was started.
        if connection.socket.take().is_some() {
            self.subchannel.calls.end(CallOutcome::Broken);
        }
    }
}

impl ServerSubchannel {
    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelEntry for ServerChannel {
    fn id(&self) -> Id {
        self.id
    }

    fn snapshot(&self) -> ChannelSnapshot {
        self.subchannel.snapshot()
    }

    fn subchannels(&self) -> Vec<Arc<dyn SubchannelEntry>> {
        vec![Arc::clone(&self.subchannel) as _]
    }
}

impl SubchannelEntry for ServerSubchannel {
    fn id(&self) -> Id {
        self.id
    }

    fn snapshot(&self) -> ChannelSnapshot {
        ChannelSnapshot {
            target: self.uri.clone(),
            state: self.lock().state,
            calls: self.calls.calls(),
            created: self.created,
        }
    }

    fn sockets(&self) -> Vec<Arc<dyn SocketEntry>> {
        let socket = self.lock().socket.clone();
        socket.into_iter().map(|socket| socket as _).collect()
    }
}

impl SocketEntry for ServerSocket {
    fn id(&self) -> Id {
        self.id
    }

    fn addresses(&self) -> SocketAddresses {
        self.addresses.clone()
    }

    fn streams(&self) -> Calls {
        Calls {
            started: 1,
            ..Calls::default()
        }
    }
}
