//! Arguments and results of policies.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::super::matcher::Headers;
use super::super::priorities::Connectivity;
use super::weight::EndpointWeight;
use crate::time::Instant;

/// Endpoints of one locality, as policies see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyLocality {
    /// Weight of the locality within its priority; above zero.
    pub weight: u32,
    /// Endpoints of the locality.
    pub endpoints: Vec<PolicyEndpoint>,
}

/// One endpoint, as policies see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyEndpoint {
    /// First address of the endpoint; unique within the cluster.
    pub address: SocketAddr,
    /// Other addresses of the same endpoint, in the order of preference (gRFC A61).
    pub additional_addresses: Vec<SocketAddr>,
    /// Weight within the locality; above zero.
    pub weight: u32,
    /// Name of the endpoint in hash rings, if it is not its address (gRFC A76).
    pub hash_key: Option<Arc<str>>,
}

/// Addresses of which one is connected at a time: those of one endpoint, or of all endpoints for `pick_first`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChild {
    /// Addresses, in the order in which they are tried. Never empty.
    pub addresses: SmallVec<[ChildAddress; 1]>,
}

/// One address of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildAddress {
    /// Index of the endpoint in the priority. The endpoints of a priority are numbered over all its localities.
    pub endpoint: usize,
    /// Address to connect to.
    pub address: SocketAddr,
}

/// Time at which an idle child connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// At once, whenever it is idle.
    Always,
    /// At once for the first time, later when a pick asks for it.
    AtStart,
    /// When a pick or the policy asks for it.
    OnPick,
}

/// State of a policy's children at an update.
#[derive(Debug, Clone, Copy)]
pub struct PolicyInput<'a> {
    /// Current time.
    pub now: Instant,
    /// Connectivity of each child.
    pub states: &'a [Connectivity],
    /// Weight of each child; empty if the policy does not [want weights](super::Policy::update_period).
    pub weights: &'a [Arc<EndpointWeight>],
}

/// The part of an RPC that policies read.
#[derive(Clone, Copy)]
pub struct PickCall<'a> {
    /// Path of the method: `/package.Service/Method`.
    pub path: &'a str,
    /// Headers of the request.
    pub headers: &'a dyn Headers,
    /// Hash of the request by the route's hash policies; `None` if they give none (gRFC A42).
    pub hash: Option<u64>,
    /// Random number that is the same at every pick of the RPC. It stands for a hash that is `None` (gRFC A42).
    pub random_hash: u64,
}

impl fmt::Debug for PickCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PickCall")
            .field("path", &self.path)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// Values of the children at the moment of a pick.
pub trait Children {
    /// Returns the number of RPCs that are under way to a child.
    fn in_flight(&self, child: usize) -> u32;
}

/// Result of a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// Send the RPC to this child.
    Child(usize),
    /// Wait for the next picker, and connect this child unless it connects already.
    Connect(usize),
    /// Wait for the next picker.
    Queue,
    /// Fail the RPC, unless it waits for ready: no child can take it.
    Fail,
}
