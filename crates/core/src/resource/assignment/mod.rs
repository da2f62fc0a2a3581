//! View of EDS resources: the endpoints of a cluster, by priority and locality.

mod encoded;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{
    Address, Locality as LocalityProto, Metadata, address, socket_address::PortSpecifier,
};
use envoy_types::pb::envoy::config::endpoint::v3::{
    LbEndpoint, cluster_load_assignment::policy::DropOverload, lb_endpoint::HostIdentifier,
};
use envoy_types::pb::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use envoy_types::pb::google::protobuf::value::Kind;
use prost::Message;

use self::encoded::{EncodedAssignment, EncodedLocality, common_endpoint};
use super::Invalid;
use super::affinity::health;
use super::invalid::Within;
use crate::lb::{DropCategory, EndpointHealth, PerMillion};

/// Endpoints of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the resource.
    pub name: Arc<str>,
    /// Localities by priority, the highest first.
    ///
    /// Weights are above zero. The sum of the weights in one priority fits in 32 bits, and so does that of the
    /// endpoints in one locality.
    pub priorities: Vec<Vec<Locality>>,
    /// Categories of RPCs to drop, in the order in which they are tried (gRFC A27).
    pub drops: Vec<DropCategory>,
}

/// Endpoints of one locality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locality {
    /// Name of the locality.
    pub id: Arc<LocalityId>,
    /// Weight within the priority; above zero.
    pub weight: u32,
    /// Endpoints that may be used.
    pub endpoints: Vec<Endpoint>,
    /// Endpoints that shut down: only sessions use them (gRFC A55).
    pub draining: Vec<Endpoint>,
}

/// Name of a locality, unique within a priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LocalityId {
    /// Region.
    pub region: String,
    /// Zone within the region.
    pub zone: String,
    /// Sub-zone within the zone.
    pub sub_zone: String,
}

/// Writes `region/zone/sub_zone`, without empty parts at the end.
impl fmt::Display for LocalityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.region)?;
        match (self.zone.as_str(), self.sub_zone.as_str()) {
            ("", "") => Ok(()),
            (zone, "") => write!(f, "/{zone}"),
            (zone, sub_zone) => write!(f, "/{zone}/{sub_zone}"),
        }
    }
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Address, unique within the cluster.
    pub address: SocketAddr,
    /// Other addresses of the same endpoint, unique within the cluster (gRFC A61).
    pub additional_addresses: Vec<SocketAddr>,
    /// Weight within the locality, for policies that use it; above zero.
    pub weight: u32,
    /// Name of the endpoint in hash rings, if it is not its address: `hash_key` of the metadata `envoy.lb` (gRFC A76).
    pub hash_key: Option<Arc<str>>,
    /// Host name, for routes that rewrite the authority (gRFC A81); not empty.
    pub hostname: Option<Arc<str>>,
    /// Health status.
    pub health: EndpointHealth,
}

impl Assignment {
    pub(super) fn from_bytes(value: &[u8]) -> Result<Self, Invalid> {
        // One copy, of which the endpoints are slices.
        let proto = EncodedAssignment::decode(Bytes::copy_from_slice(value))?;
        if proto.cluster_name.is_empty() {
            return Err(Invalid::new("must not be empty").at("cluster_name"));
        }
        Self::from_proto(&proto).map_err(|invalid| invalid.of(&proto.cluster_name))
    }

    fn from_proto(proto: &EncodedAssignment) -> Result<Self, Invalid> {
        let count = proto.endpoints.iter();
        let count = count.map(|locality| locality.lb_endpoints.len());
        let mut addresses = Addresses(HashSet::with_capacity(count.sum()));
        let mut by_priority: BTreeMap<u32, Vec<Locality>> = BTreeMap::new();
        let mut names = HashSet::new();
        for (index, locality_proto) in proto.endpoints.iter().enumerate() {
            let Some(locality) = Locality::from_proto(locality_proto, &mut addresses)
                .within_index("endpoints", index)?
            else {
                continue;
            };
            if !names.insert((locality_proto.priority, Arc::clone(&locality.id))) {
                let rule = format!(
                    "has the locality {} twice in priority {}",
                    locality.id, locality_proto.priority
                );
                return Err(Invalid::new(rule).at_index("endpoints", index));
            }
            let others = by_priority.entry(locality_proto.priority).or_default();
            others.push(locality);
        }
        let overloads = proto
            .policy
            .iter()
            .flat_map(|policy| &policy.drop_overloads);
        let drops = overloads
            .enumerate()
            .map(|(index, drop)| overload(drop).within_index("policy.drop_overloads", index))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: proto.cluster_name.as_str().into(),
            priorities: without_gaps(by_priority)?,
            drops,
        })
    }

    /// Makes the assignment of a host, `host:port`, with these addresses, which are one endpoint of one locality (gRFC
    /// A37, C-254). The order of addresses that were there before stays, so that an order that changes with each lookup
    /// moves no connection.
    pub(crate) fn of_host(name: &str, addresses: &[SocketAddr], before: Option<&Self>) -> Self {
        let before = before.and_then(|before| before.endpoints().next());
        let known = before.into_iter().flat_map(|endpoint| {
            let all = std::iter::once(&endpoint.address);
            all.chain(&endpoint.additional_addresses)
        });
        let kept = known.filter(|known| addresses.contains(known)).copied();
        let mut ordered: Vec<SocketAddr> = kept.collect();
        for address in addresses {
            if !ordered.contains(address) {
                ordered.push(*address);
            }
        }
        let mut ordered = ordered.into_iter();
        let endpoint = ordered.next().map(|address| Endpoint {
            address,
            additional_addresses: ordered.collect(),
            weight: 1,
            hash_key: None,
            // gRFC A81: the name that is resolved; as in C-core, it includes the port.
            hostname: Some(name.into()),
            health: EndpointHealth::Unknown,
        });
        let locality = Locality {
            id: Arc::default(),
            weight: 1,
            endpoints: endpoint.into_iter().collect(),
            draining: Vec::new(),
        };
        Self {
            name: name.into(),
            priorities: vec![vec![locality]],
            drops: Vec::new(),
        }
    }

    /// Returns the endpoints of all priorities and localities, without the draining ones.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        let localities = self.priorities.iter().flatten();
        localities.flat_map(|locality| &locality.endpoints)
    }
}

/// Checks that the priorities have no gaps (gRFC A27), and makes a list of them.
fn without_gaps(by_priority: BTreeMap<u32, Vec<Locality>>) -> Result<Vec<Vec<Locality>>, Invalid> {
    let mut priorities = Vec::with_capacity(by_priority.len());
    for (expected, (priority, localities)) in (0..).zip(by_priority) {
        if priority != expected {
            let rule = format!(
                "must have no gaps between priorities: found {priority}, expected {expected}"
            );
            return Err(Invalid::new(rule).at("endpoints"));
        }
        if !sum_fits(localities.iter().map(|locality| locality.weight)) {
            let rule =
                format!("of priority {priority} must have weights whose sum fits in 32 bits");
            return Err(Invalid::new(rule).at("endpoints"));
        }
        priorities.push(localities);
    }
    Ok(priorities)
}

impl Locality {
    /// Returns `None` for a locality that is ignored: its weight is zero or unset (gRFC A27).
    fn from_proto(
        proto: &EncodedLocality,
        addresses: &mut Addresses,
    ) -> Result<Option<Self>, Invalid> {
        let id = proto
            .locality
            .as_ref()
            .ok_or_else(|| Invalid::new("must be set").at("locality"))?;
        let Some(weight) = proto
            .load_balancing_weight
            .map(|weight| weight.value)
            .filter(|w| *w > 0)
        else {
            // Even an ignored locality must not be malformed.
            for encoded in &proto.lb_endpoints {
                LbEndpoint::decode(&**encoded)?;
            }
            return Ok(None);
        };
        let mut endpoints = Vec::with_capacity(proto.lb_endpoints.len());
        let mut draining = Vec::new();
        for (index, encoded) in proto.lb_endpoints.iter().enumerate() {
            let within = |invalid: Invalid| invalid.at_index("lb_endpoints", index);
            let (health, parsed) = Endpoint::read(encoded, addresses).map_err(within)?;
            match health {
                Some(EndpointHealth::Unknown | EndpointHealth::Healthy) => endpoints.push(parsed),
                Some(EndpointHealth::Draining) => draining.push(parsed),
                None => {}
            }
        }
        if !sum_fits(endpoints.iter().map(|endpoint| endpoint.weight)) {
            return Err(
                Invalid::new("must have weights whose sum fits in 32 bits").at("lb_endpoints")
            );
        }
        Ok(Some(Self {
            id: Arc::new(id.into()),
            weight,
            endpoints,
            draining,
        }))
    }
}

impl From<&LocalityProto> for LocalityId {
    fn from(proto: &LocalityProto) -> Self {
        Self {
            region: proto.region.clone(),
            zone: proto.zone.clone(),
            sub_zone: proto.sub_zone.clone(),
        }
    }
}

impl Endpoint {
    /// Reads an encoded `LbEndpoint`, with its health; `None` for the health of an endpoint that is not used.
    fn read(
        encoded: &[u8],
        addresses: &mut Addresses,
    ) -> Result<(Option<EndpointHealth>, Self), Invalid> {
        if let Some((health, endpoint)) = Self::from_common(encoded) {
            addresses.add(&ZonedAddress {
                socket: endpoint.address,
                zone: None,
            })?;
            return Ok((health, endpoint));
        }
        let proto = LbEndpoint::decode(encoded)?;
        let health = health(proto.health_status);
        Ok((health, Self::from_proto(&proto, health, addresses)?))
    }

    fn from_common(encoded: &[u8]) -> Option<(Option<EndpointHealth>, Self)> {
        let common = common_endpoint(encoded)?;
        let health = health(common.health_status);
        let endpoint = Self {
            address: common.address,
            additional_addresses: Vec::new(),
            weight: common.weight.unwrap_or(1),
            hash_key: None,
            hostname: Some(common.hostname)
                .filter(|name| !name.is_empty())
                .map(Into::into),
            health: health.unwrap_or_default(),
        };
        Some((health, endpoint))
    }

    fn from_proto(
        proto: &LbEndpoint,
        health: Option<EndpointHealth>,
        addresses: &mut Addresses,
    ) -> Result<Self, Invalid> {
        let weight = match proto.load_balancing_weight.map(|weight| weight.value) {
            Some(0) => return Err(Invalid::new("must not be zero").at("load_balancing_weight")),
            weight => weight.unwrap_or(1),
        };
        let Some(HostIdentifier::Endpoint(endpoint)) = &proto.host_identifier else {
            return Err(Invalid::new("must be set").at("endpoint"));
        };
        let address = socket_address(endpoint.address.as_ref()).within("endpoint.address")?;
        addresses.add(&address)?;
        let mut additional_addresses = Vec::with_capacity(endpoint.additional_addresses.len());
        for (index, additional) in endpoint.additional_addresses.iter().enumerate() {
            let address = socket_address(additional.address.as_ref())
                .within("address")
                .within_index("endpoint.additional_addresses", index)?;
            addresses.add(&address)?;
            additional_addresses.push(address.socket);
        }
        Ok(Self {
            address: address.socket,
            additional_addresses,
            weight,
            hash_key: proto.metadata.as_ref().and_then(hash_key),
            hostname: Some(endpoint.hostname.as_str())
                .filter(|name| !name.is_empty())
                .map(Into::into),
            health: health.unwrap_or_default(),
        })
    }
}

/// Returns the hash key of an endpoint's metadata. As in gRPC, a value that is empty, or not text, is ignored (gRFC
/// A76).
fn hash_key(metadata: &Metadata) -> Option<Arc<str>> {
    let fields = &metadata.filter_metadata.get("envoy.lb")?.fields;
    match &fields.get("hash_key")?.kind {
        Some(Kind::StringValue(key)) if !key.is_empty() => Some(key.as_str().into()),
        _ => None,
    }
}

/// An address, and its zone as it is written.
struct ZonedAddress<'a> {
    socket: SocketAddr,
    zone: Option<&'a str>,
}

/// All addresses of a cluster, with their zones.
#[derive(Debug, Default)]
struct Addresses(HashSet<(SocketAddr, Option<Box<str>>)>);

impl Addresses {
    /// Adds an address, which must be a new one (gRFC A61).
    fn add(&mut self, address: &ZonedAddress<'_>) -> Result<(), Invalid> {
        if self.0.insert((address.socket, address.zone.map(Box::from))) {
            return Ok(());
        }
        let rule = format!("has the address {} of another endpoint", address.socket);
        Err(Invalid::new(rule))
    }
}

/// Reads an IP literal and a port (gRFC A27). Host names are for logical DNS clusters.
fn socket_address(address: Option<&Address>) -> Result<ZonedAddress<'_>, Invalid> {
    let Some(address::Address::SocketAddress(socket)) = address.and_then(|a| a.address.as_ref())
    else {
        return Err(Invalid::new("must be set").at("socket_address"));
    };
    let (ip, zone) = ip_literal(&socket.address).ok_or_else(|| {
        let rule = format!("must be an IP address, not {:?}", socket.address);
        Invalid::new(rule).at("socket_address.address")
    })?;
    let port = match socket.port_specifier {
        Some(PortSpecifier::PortValue(port)) => {
            let port = u16::try_from(port).map_err(|_| Invalid::new("must be below 65536"));
            port.within("socket_address.port_value")?
        }
        Some(PortSpecifier::NamedPort(_)) => {
            let invalid = Invalid::new("is not supported: expected port_value");
            return Err(invalid.at("socket_address.named_port"));
        }
        None => return Err(Invalid::new("must be set").at("socket_address.port_value")),
    };
    let socket = match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope(zone)).into(),
    };
    Ok(ZonedAddress { socket, zone })
}

/// Reads an IP address; one of IPv6 may have a zone (RFC 4007): `fe80::1%2`.
fn ip_literal(text: &str) -> Option<(IpAddr, Option<&str>)> {
    match text.split_once('%') {
        None => Some((text.parse().ok()?, None)),
        Some((ip, zone)) if !zone.is_empty() => {
            Some((ip.parse::<Ipv6Addr>().ok()?.into(), Some(zone)))
        }
        Some(_) => None,
    }
}

/// Returns the index of a zone. For the name of an interface, which only the system can look up, it is 0: then the
/// system chooses the interface.
fn scope(zone: Option<&str>) -> u32 {
    zone.and_then(|zone| zone.parse().ok()).unwrap_or_default()
}

fn sum_fits(mut weights: impl Iterator<Item = u32>) -> bool {
    weights.try_fold(0_u32, u32::checked_add).is_some()
}

fn overload(proto: &DropOverload) -> Result<DropCategory, Invalid> {
    if proto.category.is_empty() {
        return Err(Invalid::new("must not be empty").at("category"));
    }
    let share = proto
        .drop_percentage
        .as_ref()
        .map_or(Ok(PerMillion::NONE), per_million);
    Ok(DropCategory {
        category: proto.category.as_str().into(),
        share: share.within("drop_percentage")?,
    })
}

/// Reads a fractional percent; more than 100 % is 100 % (gRFC A27).
pub(super) fn per_million(percent: &FractionalPercent) -> Result<PerMillion, Invalid> {
    let scale = match DenominatorType::try_from(percent.denominator) {
        Ok(DenominatorType::Hundred) => 10_000,
        Ok(DenominatorType::TenThousand) => 100,
        Ok(DenominatorType::Million) => 1,
        Err(_) => return Err(Invalid::new("is unknown").at("denominator")),
    };
    Ok(PerMillion::saturating(
        percent.numerator.saturating_mul(scale),
    ))
}
