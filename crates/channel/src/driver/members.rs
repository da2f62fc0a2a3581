//! Members: the children of a cluster's policies that have connections, or may get them.
//!
//! Members are kept by address, regardless of priority and locality, so an assignment that only moves
//! an endpoint keeps its connections (C-243). An eager member connects whenever it is idle. The failure of a
//! member is sticky: it counts as failed until it is ready again, even while it connects (gRFC A62).
//! Otherwise RPCs would wait instead of failing fast each time a dead backend is dialled.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::transport::DialError;
use oxds_core::lb::Connectivity;
use tokio::sync::mpsc::UnboundedSender;

use crate::endpoint::{ChildCell, ReadyChild};
use crate::pool::{Pool, Security};
use crate::subchannel::{StateChanged, StateWatch, SubchannelState};

/// The members of one cluster, by address.
pub(super) struct Members {
    by_address: HashMap<SocketAddr, Member>,
    connector: Connector,
}

/// Makes and watches subchannels.
struct Connector {
    pool: Pool,
    token: u64,
    changes: UnboundedSender<StateChanged>,
}

/// A child of the policy of a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildPlace {
    pub(super) priority: usize,
    pub(super) child: usize,
}

/// One child with its connections.
struct Member {
    place: ChildPlace,
    /// Whether it connects whenever it is idle.
    is_eager: bool,
    cell: Arc<ChildCell>,
    /// `None` before it connects for the first time.
    watch: Option<StateWatch>,
    state: Connectivity,
    /// Last connection error since it was ready.
    error: Option<DialError>,
}

impl Members {
    /// Returns an empty set. Changes of its members are sent on `changes` with `token`.
    pub(super) fn new(pool: Pool, token: u64, changes: UnboundedSender<StateChanged>) -> Self {
        Self {
            by_address: HashMap::new(),
            connector: Connector {
                pool,
                token,
                changes,
            },
        }
    }

    /// Adds an endpoint, or moves the member to another place. Returns its connections and its state.
    pub(super) fn add(
        &mut self,
        address: SocketAddr,
        place: ChildPlace,
        is_eager: bool,
    ) -> (Arc<ChildCell>, Connectivity) {
        let member = self.by_address.entry(address).or_insert_with(|| Member {
            place,
            is_eager,
            cell: Arc::default(),
            watch: None,
            state: Connectivity::Idle,
            error: None,
        });
        member.place = place;
        member.is_eager = is_eager;
        member.refresh(address, &self.connector);
        (Arc::clone(&member.cell), member.state)
    }

    /// Removes all members but the wanted. RPCs on removed members continue.
    pub(super) fn retain(&mut self, wanted: impl Fn(SocketAddr) -> bool) {
        self.by_address.retain(|&address, _| wanted(address));
    }

    /// Reads the state of a subchannel that changed. Returns the child and its state; `None` if it is no member any more.
    pub(super) fn refresh(&mut self, address: SocketAddr) -> Option<(ChildPlace, Connectivity)> {
        let member = self.by_address.get_mut(&address)?;
        member.refresh(address, &self.connector);
        Some((member.place, member.state))
    }

    /// Returns the last connection error of a member, if it has failed.
    pub(super) fn error(&self, address: SocketAddr) -> Option<&DialError> {
        self.by_address.get(&address)?.error.as_ref()
    }
}

impl Member {
    fn refresh(&mut self, address: SocketAddr, connector: &Connector) {
        if self.watch.is_none() && self.is_eager {
            self.watch = Some(connector.watch(address, &self.cell));
        }
        let Some(watch) = &self.watch else { return };
        let subchannel = watch.subchannel();
        let is_failed = self.state == Connectivity::TransientFailure;
        let mut ready = None;
        match subchannel.state() {
            SubchannelState::Ready(connections) => {
                self.state = Connectivity::Ready;
                self.error = None;
                ready = Some(ReadyChild {
                    subchannel: Arc::clone(subchannel),
                    connections,
                });
            }
            SubchannelState::TransientFailure(error) => {
                self.state = Connectivity::TransientFailure;
                self.error = Some(error);
            }
            // gRFC A62: a failed child connects again by itself, and stays failed until it is ready.
            SubchannelState::Idle if is_failed => subchannel.connect(),
            SubchannelState::Idle if self.is_eager => {
                self.state = Connectivity::Connecting;
                subchannel.connect();
            }
            SubchannelState::Idle => self.state = Connectivity::Idle,
            SubchannelState::Connecting if is_failed => {}
            SubchannelState::Connecting => self.state = Connectivity::Connecting,
        }
        if ready.is_some() || self.cell.ready().is_some() {
            self.cell.set_ready(ready);
        }
    }
}

impl Connector {
    /// Watches the subchannel of an address, which is made if no other channel has it.
    fn watch(&self, address: SocketAddr, cell: &ChildCell) -> StateWatch {
        let subchannel = cell.subchannel_or(|| self.pool.subchannel(address, Security::Plaintext));
        subchannel.watch(self.token, self.changes.clone())
    }
}
