//! The connection to a control plane, as channelz shows it: a channel of one subchannel, on which the streams are calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use oxds_core::lb::Connectivity;

use crate::channelz::{self, CallCounter, Calls, Ended, Id, Node};
use crate::transport::Ends;

/// Shown from when the server is first asked until nothing is wanted of it any more.
#[derive(Debug)]
pub(super) struct Shown {
    id: Id,
    below: Arc<Below>,
}

#[derive(Debug)]
struct Below {
    id: Id,
    uri: String,
    made: SystemTime,
    calls: CallCounter,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    state: Connectivity,
    socket: Option<Arc<Socket>>,
}

/// A connection; it carries one stream.
#[derive(Debug)]
struct Socket {
    id: Id,
    ends: Ends,
}

impl Shown {
    pub(super) fn new(uri: &str) -> Arc<Self> {
        let below = Below {
            id: Id::next(),
            uri: uri.to_owned(),
            made: SystemTime::now(),
            calls: CallCounter::default(),
            now: Mutex::new(Now {
                state: Connectivity::Idle,
                socket: None,
            }),
        };
        Arc::new(Self {
            id: Id::next(),
            below: Arc::new(below),
        })
    }

    pub(super) fn connecting(&self) {
        self.below.lock().state = Connectivity::Connecting;
    }

    /// The stream begins with the connection.
    pub(super) fn opened(&self, ends: Ends) {
        let mut now = self.below.lock();
        now.state = Connectivity::Ready;
        now.socket = Some(Arc::new(Socket {
            id: Id::next(),
            ends,
        }));
        self.below.calls.begin();
    }

    pub(super) fn closed(&self) {
        let mut now = self.below.lock();
        now.state = Connectivity::TransientFailure;
        // Nothing was begun where there was no connection.
        if now.socket.take().is_some() {
            self.below.calls.end(Ended::Broken);
        }
    }
}

impl Below {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self) -> Node {
        Node {
            target: self.uri.clone(),
            state: self.lock().state,
            calls: self.calls.calls(),
            created: self.made,
        }
    }
}

impl channelz::Channel for Shown {
    fn id(&self) -> Id {
        self.id
    }

    fn node(&self) -> Node {
        self.below.node()
    }

    fn subchannels(&self) -> Vec<Arc<dyn channelz::Subchannel>> {
        vec![Arc::clone(&self.below) as _]
    }
}

impl channelz::Subchannel for Below {
    fn id(&self) -> Id {
        self.id
    }

    fn node(&self) -> Node {
        self.node()
    }

    fn sockets(&self) -> Vec<Arc<dyn channelz::Socket>> {
        let socket = self.lock().socket.clone();
        socket.into_iter().map(|socket| socket as _).collect()
    }
}

impl channelz::Socket for Socket {
    fn id(&self) -> Id {
        self.id
    }

    fn ends(&self) -> Ends {
        self.ends.clone()
    }

    fn streams(&self) -> Calls {
        Calls {
            started: 1,
            ..Calls::default()
        }
    }
}
