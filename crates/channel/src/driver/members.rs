//! Members: the children of a cluster's policies that have connections, or may get them.
//!
//! Members are kept by address, regardless of priority and locality, so an assignment that only moves
//! an endpoint keeps its connections (C-243). Each is connected by a [`PickFirst`], which most of the time
//! has one address. The failure of a member is sticky: it counts as failed until it is ready again, even while
//! it connects (gRFC A62). Otherwise RPCs would wait instead of failing fast each time a dead backend is dialled.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::transport::DialError;
use oxds_core::lb::Connectivity;
use oxds_core::lb::policy::{Demand, EndpointWeight, PickFirst, PolicyChild};
use oxds_core::time::Instant;
use smallvec::SmallVec;
use tokio::sync::mpsc::UnboundedSender;

use crate::endpoint::{ChildCell, ReadyChild};
use crate::pool::{Pool, Security};
use crate::subchannel::{StateChanged, StateWatch, Subchannel, SubchannelState};

/// The members of one cluster.
pub(super) struct Members {
    members: Vec<Option<Member>>,
    /// Ids of removed members, which the next members get.
    free: Vec<usize>,
    /// Two leaves may have the same address.
    by_address: HashMap<SocketAddr, SmallVec<[usize; 1]>>,
    /// Times at which members try their next address, each with the member.
    timers: BTreeSet<(Instant, usize)>,
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

/// A member as its priority keeps it.
pub(super) struct MemberHandle {
    pub(super) id: usize,
    pub(super) cell: Arc<ChildCell>,
    pub(super) weight: Arc<EndpointWeight>,
    pub(super) state: Connectivity,
}

/// A member that may have changed.
type Changed = (ChildPlace, Connectivity);

/// One child with its connections.
struct Member {
    /// Name of its leaf.
    scope: Arc<str>,
    place: ChildPlace,
    demand: Demand,
    addresses: SmallVec<[MemberAddress; 1]>,
    machine: PickFirst,
    /// The machine's timer in [`Members::timers`].
    timer: Option<Instant>,
    cell: Arc<ChildCell>,
    weight: Arc<EndpointWeight>,
    /// Last connection error since it was ready.
    error: Option<(SocketAddr, DialError)>,
}

struct MemberAddress {
    address: SocketAddr,
    /// `None` while the address is not needed.
    watch: Option<StateWatch>,
}

impl Members {
    /// Returns an empty set. Changes of its members are sent on `changes` with `token`.
    pub(super) fn new(pool: Pool, token: u64, changes: UnboundedSender<StateChanged>) -> Self {
        Self {
            members: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            timers: BTreeSet::new(),
            connector: Connector {
                pool,
                token,
                changes,
            },
        }
    }

    /// Adds a child, or moves the member of the same leaf with the same addresses to another place.
    pub(super) fn add(
        &mut self,
        now: Instant,
        scope: &Arc<str>,
        child: &PolicyChild,
        place: ChildPlace,
        demand: Demand,
    ) -> Option<MemberHandle> {
        let first = child.addresses.first()?.address;
        let mut with_address = self.by_address.get(&first).into_iter().flatten().copied();
        let known =
            with_address.find(|id| self.get(*id).is_some_and(|member| member.is(scope, child)));
        let new = || Member::new(scope, child, place, demand);
        let id = known.unwrap_or_else(|| self.insert(new()));
        let member = self.members.get_mut(id)?.as_mut()?;
        // `pick_first` connects at once only at its start.
        let is_started = known.is_some() && demand == Demand::AtStart;
        member.place = place;
        member.demand = demand;
        if demand != Demand::OnPick && !is_started {
            member.connect(now, &self.connector);
        }
        member.settle(now, &self.connector);
        let handle = member.handle(id);
        self.update_timer(id);
        Some(handle)
    }

    /// Connects a member, if it is idle. Returns its place and its state.
    pub(super) fn connect(&mut self, now: Instant, id: usize) -> Option<Changed> {
        self.change(now, id, |member, connector| member.connect(now, connector))
    }

    /// Reads the state of a subchannel that changed. Returns the children that may have changed.
    pub(super) fn refresh(&mut self, now: Instant, address: SocketAddr) -> SmallVec<[Changed; 1]> {
        let ids = self.by_address.get(&address).cloned().unwrap_or_default();
        let changed = ids
            .into_iter()
            .filter_map(|id| self.change(now, id, |member, _| member.refresh(now, address)));
        changed.collect()
    }

    /// Handles the timers that have expired. Returns the children that may have changed.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Vec<Changed> {
        let mut changed = Vec::new();
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(member) = self.members.get_mut(id).and_then(Option::as_mut) {
                member.timer = None;
                member.machine.handle_timeout(now);
                member.settle(now, &self.connector);
                changed.push((member.place, member.machine.state()));
            }
            self.update_timer(id);
        }
        changed
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Removes all members but the wanted. RPCs on removed members continue.
    pub(super) fn retain(&mut self, wanted: &HashSet<usize>) {
        for (id, slot) in self.members.iter_mut().enumerate() {
            if wanted.contains(&id) {
                continue;
            }
            let Some(mut member) = slot.take() else {
                continue;
            };
            self.free.push(id);
            member.release();
            for address in &member.addresses {
                if let Entry::Occupied(mut ids) = self.by_address.entry(address.address) {
                    ids.get_mut().retain(|other| *other != id);
                    if ids.get().is_empty() {
                        ids.remove();
                    }
                }
            }
            if let Some(at) = member.timer {
                self.timers.remove(&(at, id));
            }
        }
    }

    /// Returns the last connection error of a member that has failed, with the address.
    pub(super) fn error(&self, id: usize) -> Option<&(SocketAddr, DialError)> {
        self.get(id)?.error.as_ref()
    }

    fn get(&self, id: usize) -> Option<&Member> {
        self.members.get(id)?.as_ref()
    }

    fn insert(&mut self, member: Member) -> usize {
        let id = self.free.pop().unwrap_or(self.members.len());
        for address in &member.addresses {
            self.by_address.entry(address.address).or_default().push(id);
        }
        match self.members.get_mut(id) {
            Some(slot) => *slot = Some(member),
            None => self.members.push(Some(member)),
        }
        id
    }

    fn change(
        &mut self,
        now: Instant,
        id: usize,
        change: impl FnOnce(&mut Member, &Connector),
    ) -> Option<Changed> {
        let member = self.members.get_mut(id)?.as_mut()?;
        change(member, &self.connector);
        member.settle(now, &self.connector);
        let changed = (member.place, member.machine.state());
        self.update_timer(id);
        Some(changed)
    }

    fn update_timer(&mut self, id: usize) {
        let Some(member) = self.members.get_mut(id).and_then(Option::as_mut) else {
            return;
        };
        let next = member.machine.poll_timeout();
        if next == member.timer {
            return;
        }
        if let Some(at) = std::mem::replace(&mut member.timer, next) {
            self.timers.remove(&(at, id));
        }
        self.timers.extend(next.map(|at| (at, id)));
    }
}

impl Member {
    fn new(scope: &Arc<str>, child: &PolicyChild, place: ChildPlace, demand: Demand) -> Self {
        let addresses = child.addresses.iter().map(|each| MemberAddress {
            address: each.address,
            watch: None,
        });
        let addresses: SmallVec<_> = addresses.collect();
        Self {
            scope: Arc::clone(scope),
            place,
            demand,
            machine: PickFirst::new(addresses.len()),
            cell: Arc::new(ChildCell::new(addresses.len())),
            addresses,
            timer: None,
            weight: Arc::default(),
            error: None,
        }
    }

    /// Returns whether it is this child of a leaf: one with the same addresses, in the same order.
    fn is(&self, scope: &Arc<str>, child: &PolicyChild) -> bool {
        let own = self.addresses.iter().map(|each| each.address);
        self.scope == *scope && own.eq(child.addresses.iter().map(|each| each.address))
    }

    fn handle(&self, id: usize) -> MemberHandle {
        MemberHandle {
            id,
            cell: Arc::clone(&self.cell),
            weight: Arc::clone(&self.weight),
            state: self.machine.state(),
        }
    }

    /// Leaves idle. Has no effect in other states.
    fn connect(&mut self, now: Instant, connector: &Connector) {
        if self.machine.state() != Connectivity::Idle {
            return;
        }
        let mut states = SmallVec::<[Connectivity; 1]>::new();
        for index in 0..self.addresses.len() {
            let subchannel = self.watch(index, connector);
            states.push(subchannel.state().connectivity());
        }
        self.machine.connect(now, states);
    }

    /// Reads the state of an address.
    fn refresh(&mut self, now: Instant, address: SocketAddr) {
        let mut all = self.addresses.iter().enumerate();
        let Some((index, found)) = all.find(|(_, each)| each.address == address) else {
            return;
        };
        let Some(watch) = &found.watch else { return };
        let state = watch.subchannel().state();
        let connectivity = state.connectivity();
        if let SubchannelState::TransientFailure(error) = state {
            self.error = Some((address, error));
        }
        self.machine.handle_state(now, index, connectivity);
    }

    /// Does what the machine wants: connects and releases addresses, and shows the connections of a ready child.
    fn settle(&mut self, now: Instant, connector: &Connector) {
        if self.machine.state() == Connectivity::Idle && self.demand == Demand::Always {
            // The connection was lost: an eager policy connects at once.
            self.connect(now, connector);
        }
        for index in 0..self.addresses.len() {
            if self.machine.wants(index) {
                self.watch(index, connector).connect();
            }
        }
        let ready = self.machine.selected().and_then(|index| {
            let subchannel = self.addresses.get(index)?.watch.as_ref()?.subchannel();
            match subchannel.state() {
                SubchannelState::Ready(connections) => Some(ReadyChild {
                    address: index,
                    subchannel: Arc::clone(subchannel),
                    connections,
                }),
                // The notification of the change is on its way.
                _ => None,
            }
        });
        if ready.is_some() {
            self.error = None;
        }
        if let Some(selected) = self.machine.selected() {
            self.release_others(selected);
        }
        if ready.is_some() || self.cell.ready().is_some() {
            self.cell.set_ready(ready);
        }
    }

    /// Watches the subchannel of an address, which is made if no other channel has it.
    fn watch(&mut self, index: usize, connector: &Connector) -> Arc<Subchannel> {
        let MemberAddress { address, watch } = &mut self.addresses[index];
        let watch = watch.get_or_insert_with(|| {
            let subchannel = connector.pool.subchannel(*address, Security::Plaintext);
            self.cell.set_subchannel(index, Some(&subchannel));
            subchannel.watch(connector.token, connector.changes.clone())
        });
        Arc::clone(watch.subchannel())
    }

    /// Releases the subchannels of all addresses but one.
    fn release_others(&mut self, selected: usize) {
        for (index, address) in self.addresses.iter_mut().enumerate() {
            if index != selected && address.watch.take().is_some() {
                self.cell.set_subchannel(index, None);
            }
        }
    }

    /// Releases all subchannels. Pickers that are still in use may have the cell.
    fn release(&mut self) {
        for (index, address) in self.addresses.iter_mut().enumerate() {
            address.watch = None;
            self.cell.set_subchannel(index, None);
        }
    }
}
