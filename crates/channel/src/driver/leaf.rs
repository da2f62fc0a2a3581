//! A leaf: a cluster with endpoints, which serves the cluster of a route, alone or beside others (gRFC A37).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::uri::Authority;
use oxds_client::load::{ClusterLoad, LoadReporter, LocalityLoad};
use oxds_client::metrics::{BACKEND_SERVICE, EJECTIONS_ENFORCED, EJECTIONS_UNENFORCED};
use oxds_core::lb::OutlierDetector;
use oxds_core::resolve::LeafCluster;
use oxds_core::resource::{Endpoint, Locality, LocalityId};
use oxds_core::time::Instant;
use smallvec::SmallVec;

use super::level::{LevelContext, LevelPlace, PriorityLevel, localities};
use super::list_diff::unchanged;
use super::members::Members;
use super::sessions::Sessions;
use crate::attempt::Picked;
use crate::connection_request::ConnectionRequester;
use crate::endpoint::{Addresses, Ejected, EndpointEntry, PickAddress};
use crate::epoch::Epoch;
use crate::limits::RequestLimit;
use crate::metrics::ChannelMetrics;
use crate::picker::DropCounts;
use crate::security::{ChannelSecurity, ClusterSecurity};
use crate::session::{SessionHost, SessionTable};

/// Values of the channel that leaves depend on.
#[derive(Clone, Copy)]
pub(super) struct LeafContext<'a> {
    pub(super) loads: Option<&'a LoadReporter>,
    pub(super) security: &'a ChannelSecurity,
}

/// State of a leaf that all its priorities share.
pub(super) struct Leaf {
    pub(super) config: Arc<LeafCluster>,
    /// Load counters, if the cluster reports load.
    load: Option<ClusterLoad>,
    pub(super) drops: DropCounts,
    /// Circuit breaker.
    pub(super) limit: Arc<RequestLimit>,
    pub(super) detector: OutlierDetector,
    pub(super) sessions: Sessions,
    /// Security of the connections to its endpoints.
    pub(super) security: ClusterSecurity,
}

impl Leaf {
    /// Makes a leaf. `before` is the leaf of the same cluster in the configuration before; `members` are those of the
    /// cluster.
    pub(super) fn new(
        now: Instant,
        config: &Arc<LeafCluster>,
        context: LeafContext<'_>,
        before: Option<Self>,
        members: &Members,
    ) -> Self {
        let mut leaf = match before {
            Some(before) if Arc::ptr_eq(&before.config.cluster, &config.cluster) => Self {
                drops: drop_counts(before.load.as_ref(), config),
                config: Arc::clone(config),
                ..before
            },
            before => Self::of_cluster(now, config, context, before, members),
        };
        // Without an algorithm, endpoints have no state.
        let is_on = leaf.detector.poll_timeout().is_some();
        let localities = priorities(config).iter().flatten().filter(|_| is_on);
        let endpoints =
            localities.flat_map(|locality| locality.endpoints.iter().chain(&locality.draining));
        leaf.detector
            .set_endpoints(endpoints.map(|endpoint| endpoint.address));
        leaf
    }

    fn of_cluster(
        now: Instant,
        config: &Arc<LeafCluster>,
        context: LeafContext<'_>,
        before: Option<Self>,
        members: &Members,
    ) -> Self {
        // The new load handle is made before the old one is dropped, so that the LRS stream of a cluster that stays
        // does not end.
        let load = context.loads.and_then(|loads| loads.of(&config.cluster));
        // gRFC A50: endpoints that stay keep their counts and their ejection.
        let (mut detector, sessions) = match before {
            Some(before) => (before.detector, before.sessions),
            None => (OutlierDetector::new(), Sessions::new(members.another())),
        };
        detector.configure(now, config.cluster.outlier.as_ref());
        Self {
            config: Arc::clone(config),
            drops: drop_counts(load.as_ref(), config),
            limit: Arc::new(RequestLimit::of(&config.cluster, load.clone())),
            load,
            detector,
            sessions,
            security: context.security.of_cluster(config.cluster.tls.as_ref()),
        }
    }

    /// Returns the number of its priorities.
    pub(super) fn priorities(&self) -> usize {
        priorities(&self.config).len()
    }

    /// Records the decisions of outlier detection since the last call (gRFC A91).
    pub(super) fn record_ejections(&mut self, metrics: &ChannelMetrics) {
        let counts = self.detector.take_counts();
        let methods = [
            ("success_rate", counts.success_rate),
            ("failure_percentage", counts.failure_percentage),
        ];
        for (method, decisions) in methods {
            let decisions = [
                (&EJECTIONS_ENFORCED, decisions.ejected, ""),
                (
                    &EJECTIONS_UNENFORCED,
                    decisions.not_enforced,
                    "enforcement_percentage",
                ),
                (
                    &EJECTIONS_UNENFORCED,
                    decisions.above_maximum,
                    "max_ejection_overflow",
                ),
            ];
            for (counter, by, reason) in decisions.into_iter().filter(|(_, by, _)| *by > 0) {
                metrics.add(counter, by, |key| match key {
                    "grpc.lb.outlier_detection.detection_method" => method,
                    "grpc.lb.outlier_detection.unenforced_reason" => reason,
                    BACKEND_SERVICE => &self.config.cluster.name,
                    _ => "",
                });
            }
        }
    }

    /// Returns a priority. `before` is the one that it continues: if nothing changed, it is the same, and otherwise
    /// endpoints that did not change keep their addresses.
    pub(super) fn level(
        &self,
        place: LevelPlace,
        mut before: Option<PriorityLevel>,
        context: LevelContext,
    ) -> PriorityLevel {
        if let Some(same) = before.take_if(|before| before.keep(place, &self.config)) {
            return same;
        }
        let before = before.filter(|before| before.is_at(place, &self.config));
        let known = before.as_ref().map(KnownEndpoints::new);
        let localities = localities(&self.config, place.number);
        let count = localities.iter().map(|locality| locality.endpoints.len());
        let mut endpoints = Vec::with_capacity(count.sum());
        for locality in localities {
            let of_locality = known.as_ref().and_then(|known| known.locality(locality));
            let mut new = None;
            for (index, endpoint) in locality.endpoints.iter().enumerate() {
                let same = of_locality.as_ref().and_then(|known| known.get(index));
                endpoints.push(match same {
                    Some(same) => Arc::clone(same),
                    None => new
                        .get_or_insert_with(|| self.maker(place.priority, locality))
                        .addresses(endpoint),
                });
            }
        }
        PriorityLevel::new(place, &self.config, endpoints, before, context)
    }

    /// Turns sessions on or off. `levels` are its priorities.
    pub(super) fn configure_sessions(
        &mut self,
        now: Instant,
        levels: &[PriorityLevel],
        context: Option<(ConnectionRequester, Epoch)>,
    ) {
        let table = context.map(|(requester, epoch)| SessionTable {
            hosts: levels.iter().flat_map(|level| self.hosts(level)).collect(),
            requester,
            epoch,
        });
        let idle_timeout = self.config.cluster.idle_timeout;
        self.sessions.configure(now, table, idle_timeout);
        self.set_session_ejections();
    }

    /// Gives the ejections of endpoints to the sessions (gRFC A50).
    pub(super) fn set_session_ejections(&self) {
        let is_ejected = |address| self.detector.ejection(address).is_some();
        self.sessions.set_ejections(is_ejected);
    }

    /// Returns the addresses of a priority for the table of sessions.
    fn hosts<'a>(
        &'a self,
        level: &'a PriorityLevel,
    ) -> impl Iterator<Item = (SocketAddr, SessionHost)> {
        let usable = level.localities().iter();
        let usable = usable.flat_map(|locality| &locality.endpoints);
        let usable = usable.zip(level.endpoints().iter().map(Arc::clone));
        let draining = self.draining(level);
        usable.chain(draining).flat_map(|(endpoint, addresses)| {
            // gRFC A55: sessions return only to endpoints with these statuses.
            let statuses = self.config.cluster.override_statuses;
            let is_allowed = statuses.contains(endpoint.health);
            let list = addresses.iter().map(|address| address.picked.address);
            let list: SmallVec<[SocketAddr; 1]> = list.collect();
            let host = |address: &PickAddress| {
                let all: &[SocketAddr] = if list.len() > 1 { &list } else { &[] };
                let socket = address.picked.address;
                (
                    socket,
                    SessionHost::new(address.clone(), all.into(), is_allowed),
                )
            };
            addresses.iter().map(host).collect::<SmallVec<[_; 1]>>()
        })
    }

    /// Returns the draining endpoints of a priority.
    fn draining<'a>(
        &'a self,
        level: &'a PriorityLevel,
    ) -> impl Iterator<Item = (&'a Endpoint, Addresses)> {
        let localities = level.localities().iter();
        let localities = localities.filter(|locality| !locality.draining.is_empty());
        localities.flat_map(|locality| {
            let maker = self.maker(level.priority(), locality);
            let endpoints = locality.draining.iter();
            endpoints.map(move |endpoint| (endpoint, maker.addresses(endpoint)))
        })
    }

    /// Returns entries for the status of the draining endpoints of a priority, if sessions are on.
    pub(super) fn draining_entries(
        &self,
        level: &PriorityLevel,
        ejected: impl Fn(SocketAddr) -> Option<Ejected>,
    ) -> Vec<EndpointEntry> {
        if self.sessions.table().is_none() {
            return Vec::new();
        }
        let entry = |(_, addresses): (_, Addresses)| {
            let picked = Arc::clone(&addresses.first()?.picked);
            Some(EndpointEntry {
                ejected: ejected(picked.address),
                picked,
                child: None,
                is_draining: true,
            })
        };
        self.draining(level).filter_map(entry).collect()
    }

    fn maker(&self, priority: usize, locality: &Locality) -> AddressMaker<'_> {
        let load = self.load.as_ref();
        AddressMaker {
            leaf: self,
            name: locality.id.to_string().into(),
            load: load.map(|load| load.locality(&locality.id)),
            priority,
        }
    }
}

/// Maker of the addresses of a locality's endpoints.
struct AddressMaker<'a> {
    leaf: &'a Leaf,
    name: Arc<str>,
    load: Option<LocalityLoad>,
    priority: usize,
}

impl AddressMaker<'_> {
    fn addresses(&self, endpoint: &Endpoint) -> Addresses {
        let authority = endpoint.hostname.as_ref();
        let authority: Option<Arc<Authority>> =
            authority.and_then(|name| name.parse().ok()).map(Arc::new);
        let all = std::iter::once(&endpoint.address).chain(&endpoint.additional_addresses);
        let address = |address: &SocketAddr| PickAddress {
            picked: Arc::new(Picked {
                cluster: Arc::clone(&self.leaf.config.cluster.name),
                locality: Arc::clone(&self.name),
                priority: self.priority,
                address: *address,
                authority: authority.clone(),
            }),
            load: self.load.clone(),
            results: self.leaf.detector.results(endpoint.address),
        };
        all.map(address).collect()
    }
}

/// Endpoints of a priority before an update, by locality.
struct KnownEndpoints<'a>(HashMap<&'a LocalityId, (&'a Locality, &'a [Addresses])>);

/// Endpoints of a locality before an update.
struct KnownLocality<'a> {
    addresses: &'a [Addresses],
    /// For each endpoint after the update, its index in `addresses` if it did not change.
    unchanged: Vec<Option<usize>>,
}

impl<'a> KnownEndpoints<'a> {
    fn new(level: &'a PriorityLevel) -> Self {
        let mut rest = level.endpoints();
        let localities = level.localities().iter();
        let with_addresses = localities.map(|locality| {
            let (own, others) = rest.split_at(locality.endpoints.len().min(rest.len()));
            rest = others;
            (&*locality.id, (locality, own))
        });
        Self(with_addresses.collect())
    }

    /// Returns the endpoints of the locality with the name of `now`, compared with those that it has now.
    fn locality(&self, now: &Locality) -> Option<KnownLocality<'a>> {
        let (locality, addresses) = *self.0.get(&*now.id)?;
        let key = |endpoint: &Endpoint| endpoint.address;
        let (before, after) = (&locality.endpoints, &now.endpoints);
        Some(KnownLocality {
            addresses,
            unchanged: unchanged(before, after, PartialEq::eq, (key, key)),
        })
    }
}

impl KnownLocality<'_> {
    /// Returns the addresses of the endpoint with this index now, if it did not change.
    fn get(&self, index: usize) -> Option<&Addresses> {
        self.addresses.get((*self.unchanged.get(index)?)?)
    }
}

/// Returns the localities of a leaf by priority.
fn priorities(config: &LeafCluster) -> &[Vec<Locality>] {
    let assignment = config.assignment.as_ref();
    assignment.map_or(&[], |assignment| &assignment.priorities)
}

fn drop_counts(load: Option<&ClusterLoad>, config: &LeafCluster) -> DropCounts {
    let (Some(load), Some(assignment)) = (load, &config.assignment) else {
        return DropCounts::default();
    };
    let drops = assignment.drops.iter();
    drops.map(|drop| load.category(&drop.category)).collect()
}

/// Returns, for each new priority, the old priority that it continues, if any.
///
/// gRFC A56, child name reuse: it is the first old priority of the same cluster, in the order of the new one's
/// localities, that has one of them and is not continued already.
pub(super) fn continued_priorities(
    old: &[Arc<LeafCluster>],
    new: &[Arc<LeafCluster>],
) -> Vec<Option<usize>> {
    let old = named_levels(old);
    let mut with_locality: HashMap<(&str, &LocalityId), SmallVec<[usize; 1]>> = HashMap::new();
    for (index, (name, level)) in old.iter().enumerate() {
        for locality in *level {
            let indexes = with_locality.entry((name, &locality.id)).or_default();
            indexes.push(index);
        }
    }
    let mut taken = vec![false; old.len()];
    let mut continued = |(name, level): (&str, &[Locality])| {
        let old_priority_of = |locality: &Locality| {
            let mut indexes = with_locality.get(&(name, &*locality.id))?.iter().copied();
            indexes.find(|index| !taken[*index])
        };
        let index = level.iter().find_map(old_priority_of)?;
        taken[index] = true;
        Some(index)
    };
    named_levels(new).into_iter().map(&mut continued).collect()
}

/// Returns the localities of each priority, with the name of its leaf.
fn named_levels(leaves: &[Arc<LeafCluster>]) -> Vec<(&str, &[Locality])> {
    let mut levels = Vec::new();
    for leaf in leaves {
        let of_leaf = priorities(leaf).iter();
        levels.extend(of_leaf.map(|level| (&*leaf.cluster.name, level.as_slice())));
    }
    levels
}
