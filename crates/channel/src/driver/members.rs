//! Members: the endpoints of one cluster that have a subchannel.
//!
//! Members are kept by address, regardless of priority and locality, so an assignment that only moves
//! an endpoint keeps its connections (C-243). A member connects whenever it is idle, as round robin
//! does. Its failure is sticky: it counts as failed until it is ready again, even while it connects.
//! Otherwise RPCs would wait instead of failing fast each time a dead backend is dialled.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::transport::DialError;
use oxds_core::lb::Connectivity;
use tokio::sync::mpsc::UnboundedSender;

use crate::pool::{Pool, Security};
use crate::subchannel::{Connections, StateChanged, StateWatch, Subchannel, SubchannelState};

/// The members of one cluster, by address.
pub(super) struct Members {
    by_address: HashMap<SocketAddr, Member>,
    pool: Pool,
    token: u64,
    changes: UnboundedSender<StateChanged>,
}

/// One endpoint with its state in the round robin policy.
pub(super) struct Member {
    watch: StateWatch,
    pub(super) state: MemberState,
}

/// State of a member: that of its subchannel, with sticky failure.
#[derive(Debug)]
pub(super) enum MemberState {
    Connecting,
    Ready(Connections),
    Failed(DialError),
}

impl Members {
    /// Returns an empty set. Changes of its members are sent on `changes` with `token`.
    pub(super) fn new(pool: Pool, token: u64, changes: UnboundedSender<StateChanged>) -> Self {
        Self {
            by_address: HashMap::new(),
            pool,
            token,
            changes,
        }
    }

    pub(super) fn get(&self, address: SocketAddr) -> Option<&Member> {
        self.by_address.get(&address)
    }

    /// Adds an endpoint unless it is a member.
    pub(super) fn add(&mut self, address: SocketAddr) {
        let (pool, token, changes) = (&self.pool, self.token, &self.changes);
        self.by_address.entry(address).or_insert_with(|| {
            let subchannel = pool.subchannel(address, Security::Plaintext);
            let mut member = Member {
                watch: subchannel.watch(token, changes.clone()),
                state: MemberState::Connecting,
            };
            member.refresh();
            member
        });
    }

    /// Removes all members but the wanted. RPCs on removed members continue.
    pub(super) fn retain(&mut self, wanted: impl Fn(SocketAddr) -> bool) {
        self.by_address.retain(|&address, _| wanted(address));
    }

    /// Reads the state of a subchannel that changed.
    pub(super) fn refresh(&mut self, address: SocketAddr) {
        // The member may be removed before its change is read.
        if let Some(member) = self.by_address.get_mut(&address) {
            member.refresh();
        }
    }
}

impl Member {
    pub(super) fn subchannel(&self) -> &Arc<Subchannel> {
        self.watch.subchannel()
    }

    fn refresh(&mut self) {
        let failed = matches!(self.state, MemberState::Failed(_));
        match self.subchannel().state() {
            SubchannelState::Ready(connections) => self.state = MemberState::Ready(connections),
            SubchannelState::TransientFailure(error) => self.state = MemberState::Failed(error),
            SubchannelState::Idle => {
                // Round robin keeps every endpoint connected: an idle one connects at once.
                self.subchannel().connect();
                if !failed {
                    self.state = MemberState::Connecting;
                }
            }
            // Sticky failure: see the module's documentation.
            SubchannelState::Connecting if failed => {}
            SubchannelState::Connecting => self.state = MemberState::Connecting,
        }
    }
}

impl MemberState {
    pub(super) fn connectivity(&self) -> Connectivity {
        match self {
            Self::Connecting => Connectivity::Connecting,
            Self::Ready(_) => Connectivity::Ready,
            Self::Failed(_) => Connectivity::TransientFailure,
        }
    }
}
