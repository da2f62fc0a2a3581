//! The endpoints of one cluster that have a subchannel.
//!
//! Members are kept by address, whatever their priority and locality, so an assignment that only
//! moves an endpoint keeps its connections (C-243). A member connects whenever it is idle, as round
//! robin does, and its failure is sticky: it counts as failed until it is ready again, however often
//! it tries in between. Else RPCs would stop failing fast each time a dead backend is dialled.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::transport::DialError;
use oxds_core::lb::Connectivity;
use tokio::sync::mpsc::UnboundedSender;

use crate::pool::{Pool, Security};
use crate::subchannel::{Change, Connections, State, Subchannel, Watch};

pub(super) struct Members {
    by_address: HashMap<SocketAddr, Member>,
    pool: Pool,
    token: u64,
    changes: UnboundedSender<Change>,
}

/// One endpoint as round robin sees it.
pub(super) struct Member {
    watch: Watch,
    pub(super) state: MemberState,
}

#[derive(Debug)]
pub(super) enum MemberState {
    Connecting,
    Ready(Connections),
    Failed(DialError),
}

impl Members {
    /// No members; changes of those to come are told with `token`.
    pub(super) fn new(pool: Pool, token: u64, changes: UnboundedSender<Change>) -> Self {
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

    /// Adds an endpoint unless it is there.
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

    /// Lets go of all but the wanted. RPCs on them go on.
    pub(super) fn retain(&mut self, wanted: impl Fn(SocketAddr) -> bool) {
        self.by_address.retain(|&address, _| wanted(address));
    }

    /// Takes over the state of a subchannel that changed.
    pub(super) fn refresh(&mut self, address: SocketAddr) {
        // A change may still be under way when its member has left.
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
            State::Ready(connections) => self.state = MemberState::Ready(connections),
            State::TransientFailure(error) => self.state = MemberState::Failed(error),
            State::Idle => {
                self.subchannel().connect();
                if !failed {
                    self.state = MemberState::Connecting;
                }
            }
            State::Connecting if failed => {}
            State::Connecting => self.state = MemberState::Connecting,
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
