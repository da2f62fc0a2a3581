//! Members: the children of a cluster's policies that have connections, or may get them.
//!
//! Members are kept by address and security, regardless of priority and locality, so an assignment that only moves
//! an endpoint keeps its connections (C-243). Each is connected by a [`PickFirst`], which most of the time
//! has one address. The failure of a member is sticky: it counts as failed until it is ready again, even while
//! it connects (gRFC A62). Otherwise RPCs would wait instead of failing fast each time a dead backend is dialled.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::metrics::{PICK_FIRST_DISCONNECTIONS, PICK_FIRST_FAILED, PICK_FIRST_SUCCEEDED};
use oxds_core::lb::Connectivity;
use oxds_core::lb::policy::{Demand, EndpointWeight, PickFirst, PolicyChild};
use oxds_core::time::Instant;
use oxds_net::transport::DialError;
use smallvec::SmallVec;
use tokio::sync::mpsc::UnboundedSender;

use crate::attempt::Picked;
use crate::endpoint::{ChildCell, PickAddress, ReadyChild};
use crate::metrics::ChannelMetrics;
use crate::pool::Pool;
use crate::security::{ClusterSecurity, Security};
use crate::subchannel::{
    ReportSink, ReportWatch, StateChanged, StateWatch, Subchannel, SubchannelState,
};

/// The members of one cluster.
pub(super) struct Members {
    members: Vec<Option<Member>>,
    /// Ids of removed members, which the next members get.
    free: Vec<usize>,
    /// Two leaves may have the same address, and a member before and after an update.
    by_address: HashMap<SocketAddr, SmallVec<[usize; 2]>>,
    /// Times at which members try their next address, each with the member.
    timers: BTreeSet<(Instant, usize)>,
    connector: Connector,
}

/// Makes and watches subchannels.
#[derive(Clone)]
struct Connector {
    pool: Pool,
    token: u64,
    changes: UnboundedSender<StateChanged>,
    metrics: Option<Arc<ChannelMetrics>>,
}

/// The leaf of a member.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    name: &'a Arc<str>,
    security: &'a ClusterSecurity,
}

impl<'a> Scope<'a> {
    /// Returns the leaf of this name, whose endpoints have this security.
    pub(super) fn new(name: &'a Arc<str>, security: &'a ClusterSecurity) -> Self {
        Self { name, security }
    }

    /// Returns the addresses of a child, each with its security.
    fn targets(self, child: &PolicyChild, addresses: &[PickAddress]) -> Targets {
        let targets = child.addresses.iter().map(|each| {
            let mut picked = addresses.iter().map(|address| &address.picked);
            let picked = picked.find(|picked| picked.address == each.address);
            // gRFC A101: the name of the host, without the port that it may have.
            let host = picked.and_then(|picked| Some(picked.authority.as_ref()?.host()));
            (each.address, self.security.endpoint(host))
        });
        targets.collect()
    }
}

/// Addresses of a child, each with the security of its connections.
type Targets = SmallVec<[(SocketAddr, Security); 1]>;

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

/// Time between the load reports of a member, and their receiver.
pub(super) type ReportRequest = (Duration, Arc<dyn ReportSink>);

/// Load reports of a member, and the address that is watched.
struct MemberReports {
    request: ReportRequest,
    watched: Option<(usize, ReportWatch)>,
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
    /// The addresses with their clusters and localities, if metrics are recorded.
    picked: Option<Box<[Arc<Picked>]>>,
    machine: PickFirst,
    /// The machine's timer in [`Members::timers`].
    timer: Option<Instant>,
    cell: Arc<ChildCell>,
    weight: Arc<EndpointWeight>,
    /// Load reports out of band, if the policy wants them.
    reports: Option<Box<MemberReports>>,
    /// Last connection error since it was ready.
    error: Option<(SocketAddr, DialError)>,
}

struct MemberAddress {
    address: SocketAddr,
    security: Security,
    /// `None` while the address is not needed.
    watch: Option<StateWatch>,
}

impl Members {
    /// Returns an empty set. Changes of its members are sent on `changes` with `token`.
    pub(super) fn new(
        pool: Pool,
        token: u64,
        changes: UnboundedSender<StateChanged>,
        metrics: Option<Arc<ChannelMetrics>>,
    ) -> Self {
        Self::with_connector(Connector {
            pool,
            token,
            changes,
            metrics,
        })
    }

    /// Returns an empty set of the same cluster.
    pub(super) fn another(&self) -> Self {
        Self::with_connector(self.connector.clone())
    }

    fn with_connector(connector: Connector) -> Self {
        Self {
            members: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            timers: BTreeSet::new(),
            connector,
        }
    }

    /// Returns the recorder of the channel, if it has one.
    pub(super) fn metrics(&self) -> Option<&Arc<ChannelMetrics>> {
        self.connector.metrics.as_ref()
    }

    /// Adds a child, or moves the member of the same leaf with the same addresses to another place.
    pub(super) fn add(
        &mut self,
        now: Instant,
        scope: Scope<'_>,
        child: &PolicyChild,
        addresses: &[PickAddress],
        place: ChildPlace,
        demand: Demand,
    ) -> Option<MemberHandle> {
        let first = child.addresses.first()?.address;
        let targets = scope.targets(child, addresses);
        let mut with_address = self.by_address.get(&first).into_iter().flatten().copied();
        let known = with_address.find(|id| {
            self.get(*id)
                .is_some_and(|member| member.is(scope.name, &targets))
        });
        let new = |targets| Member::new(scope.name, targets, place, demand);
        let id = match known {
            Some(known) => known,
            None => self.insert(new(targets)),
        };
        let member = self.members.get_mut(id)?.as_mut()?;
        // `pick_first` connects at once only at its start.
        let is_started = known.is_some() && demand == Demand::AtStart;
        member.place = place;
        member.demand = demand;
        if self.connector.metrics.is_some() {
            let picked = addresses.iter().map(|each| Arc::clone(&each.picked));
            member.picked = Some(picked.collect());
        }
        if demand != Demand::OnPick && !is_started {
            member.connect(now, &self.connector);
        }
        member.settle(now, &self.connector);
        let handle = member.handle(id);
        self.update_timer(id);
        Some(handle)
    }

    /// Moves a member to another place.
    pub(super) fn set_place(&mut self, id: usize, place: ChildPlace) {
        if let Some(member) = self.members.get_mut(id).and_then(Option::as_mut) {
            member.place = place;
        }
    }

    /// Sets the receiver of a member's load reports, with the time between them. Without one, no reports are requested.
    pub(super) fn watch_reports(&mut self, id: usize, reports: Option<ReportRequest>) {
        if let Some(member) = self.members.get_mut(id).and_then(Option::as_mut) {
            let new = |request| {
                Box::new(MemberReports {
                    request,
                    watched: None,
                })
            };
            // The old watch ends after the new one begins, so that the stream stays if the period does.
            let old = std::mem::replace(&mut member.reports, reports.map(new));
            member.settle_reports();
            drop(old);
        }
    }

    /// Connects a member, if it is idle. Returns its place and its state.
    pub(super) fn connect(&mut self, now: Instant, id: usize) -> Option<Changed> {
        self.change(now, id, |member, connector| member.connect(now, connector))
    }

    /// Reads the state of a subchannel that changed. Returns the children that may have changed.
    pub(super) fn refresh(&mut self, now: Instant, address: SocketAddr) -> SmallVec<[Changed; 1]> {
        let ids = self.by_address.get(&address).cloned().unwrap_or_default();
        let changed = ids.into_iter().filter_map(|id| {
            self.change(now, id, |member, connector| {
                member.refresh(now, address, connector);
            })
        });
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

    /// Removes all members but those with these ids. RPCs on removed members continue.
    pub(super) fn retain(&mut self, ids: impl IntoIterator<Item = usize>) {
        let mut is_kept = vec![false; self.members.len()];
        for id in ids {
            if let Some(is_kept) = is_kept.get_mut(id) {
                *is_kept = true;
            }
        }
        for (id, slot) in self.members.iter_mut().enumerate() {
            if is_kept[id] {
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
    fn new(scope: &Arc<str>, targets: Targets, place: ChildPlace, demand: Demand) -> Self {
        let addresses = targets
            .into_iter()
            .map(|(address, security)| MemberAddress {
                address,
                security,
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
            picked: None,
            timer: None,
            weight: Arc::default(),
            reports: None,
            error: None,
        }
    }

    /// Returns whether it is this child of a leaf: one with the same addresses, in the same order, and the same
    /// security.
    fn is(&self, scope: &Arc<str>, targets: &Targets) -> bool {
        let own = self.addresses.iter();
        let own = own.map(|each| (&each.address, &each.security));
        self.scope == *scope
            && own.eq(targets
                .iter()
                .map(|(address, security)| (address, security)))
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
            // A subchannel that no channel uses is idle, and is made when its turn comes.
            let each = &self.addresses[index];
            states.push(if connector.pool.contains(each.address, &each.security) {
                self.watch(index, connector).state().connectivity()
            } else {
                Connectivity::Idle
            });
        }
        self.machine.connect(now, states);
    }

    /// Reads the state of an address.
    fn refresh(&mut self, now: Instant, address: SocketAddr, connector: &Connector) {
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
        let was_selected = self.machine.selected() == Some(index);
        self.machine.handle_state(now, index, connectivity);
        if let Some(metrics) = &connector.metrics {
            let is_selected = self.machine.selected() == Some(index);
            let counter = match (was_selected, is_selected) {
                (true, false) => &PICK_FIRST_DISCONNECTIONS,
                (false, true) => &PICK_FIRST_SUCCEEDED,
                _ if connectivity == Connectivity::TransientFailure => &PICK_FIRST_FAILED,
                _ => return,
            };
            metrics.add(counter, 1, |_| "");
        }
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
        self.settle_reports();
    }

    /// Watches the load reports of the selected address, and of no other (gRFC A51).
    fn settle_reports(&mut self) {
        let Some(reports) = &mut self.reports else {
            return;
        };
        let selected = self.machine.selected();
        if reports.watched.as_ref().map(|(index, _)| *index) == selected {
            return;
        }
        let subchannel = selected.and_then(|index| {
            let watch = self.addresses.get(index)?.watch.as_ref()?;
            Some((index, watch.subchannel()))
        });
        reports.watched = subchannel.map(|(index, subchannel)| {
            let (period, sink) = &reports.request;
            (index, subchannel.watch_reports(*period, Arc::clone(sink)))
        });
    }

    /// Watches the subchannel of an address, which is made if no other channel has it.
    fn watch(&mut self, index: usize, connector: &Connector) -> Arc<Subchannel> {
        let MemberAddress {
            address,
            security,
            watch,
        } = &mut self.addresses[index];
        let watch = watch.get_or_insert_with(|| {
            let subchannel = connector.pool.subchannel(*address, security);
            if let Some(metrics) = &connector.metrics {
                let mut picked = self.picked.iter().flatten();
                if let Some(picked) = picked.find(|picked| picked.address == *address) {
                    subchannel.observe(metrics, &picked.cluster, &picked.locality);
                }
            }
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
        self.reports = None;
        for (index, address) in self.addresses.iter_mut().enumerate() {
            address.watch = None;
            self.cell.set_subchannel(index, None);
        }
    }
}
