//! Rules by which filter chains match connections (gRFC A36).

use envoy_types::pb::envoy::config::listener::v3::{
    FilterChainMatch, filter_chain_match::ConnectionSourceType,
};

use crate::resource::Invalid;
use crate::resource::cidr::Cidr;
use crate::resource::invalid::Within;

/// The transport protocol of connections whose first bytes no listener filter looks at.
pub(super) const RAW_BUFFER: &str = "raw_buffer";

/// Condition on the client's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SourceType {
    Any = 0,
    /// The client has the same address, or a loopback address.
    Local = 1,
    External = 2,
}

/// Match of a filter chain: a connection must satisfy each field that is set by one of its values.
#[derive(Debug, Default)]
pub(super) struct ChainMatch {
    destination_port: Option<u32>,
    destinations: Vec<Cidr>,
    server_names: Vec<String>,
    transport_protocol: String,
    application_protocols: Vec<String>,
    source_type: Option<SourceType>,
    sources: Vec<Cidr>,
    source_ports: Vec<u16>,
}

/// One combination of the values of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Rule<'a> {
    destination_port: Option<u32>,
    pub(super) destination: Option<Cidr>,
    server_name: Option<&'a str>,
    pub(super) transport_protocol: &'a str,
    application_protocol: Option<&'a str>,
    pub(super) source_type: SourceType,
    pub(super) source: Option<Cidr>,
    pub(super) source_port: Option<u16>,
}

impl ChainMatch {
    /// Reads a match; one that is absent has no conditions.
    pub(super) fn from_proto(proto: Option<&FilterChainMatch>) -> Result<Self, Invalid> {
        let Some(proto) = proto else {
            return Ok(Self::default());
        };
        let source_type = match ConnectionSourceType::try_from(proto.source_type) {
            Ok(ConnectionSourceType::Any) => None,
            Ok(ConnectionSourceType::SameIpOrLoopback) => Some(SourceType::Local),
            Ok(ConnectionSourceType::External) => Some(SourceType::External),
            Err(_) => return Err(Invalid::new("is unknown").at("source_type")),
        };
        let ports = proto.source_ports.iter().enumerate();
        let ports = ports.map(|(index, port)| {
            let port = u16::try_from(*port).ok().filter(|port| *port != 0);
            let rule = || Invalid::new("must be from 1 to 65535");
            port.ok_or_else(|| rule().at_index("source_ports", index))
        });
        // gRPC treats a destination port of 0 as unset.
        let destination_port = proto.destination_port.as_ref().map(|port| port.value);
        Ok(Self {
            destination_port: destination_port.filter(|port| *port != 0),
            destinations: ranges(&proto.prefix_ranges, "prefix_ranges")?,
            server_names: proto.server_names.clone(),
            transport_protocol: proto.transport_protocol.clone(),
            application_protocols: proto.application_protocols.clone(),
            source_type,
            sources: ranges(&proto.source_prefix_ranges, "source_prefix_ranges")?,
            source_ports: ports.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the number of combinations of its values; `None` if it does not fit.
    pub(super) fn count(&self) -> Option<usize> {
        let lengths = [
            self.destinations.len(),
            self.server_names.len(),
            self.application_protocols.len(),
            self.sources.len(),
            self.source_ports.len(),
        ];
        lengths.into_iter().try_fold(1_usize, |product, length| {
            product.checked_mul(length.max(1))
        })
    }

    /// Returns all combinations of its values (gRFC A36: the Cartesian product of the fields that are present).
    pub(super) fn rules(&self) -> impl Iterator<Item = Rule<'_>> {
        or_any(&self.destinations).flat_map(move |destination| {
            or_any(&self.server_names).flat_map(move |server_name| {
                or_any(&self.application_protocols).flat_map(move |application_protocol| {
                    or_any(&self.sources).flat_map(move |source| {
                        or_any(&self.source_ports).map(move |source_port| Rule {
                            destination_port: self.destination_port,
                            destination: destination.copied(),
                            server_name: server_name.map(String::as_str),
                            transport_protocol: &self.transport_protocol,
                            application_protocol: application_protocol.map(String::as_str),
                            source_type: self.source_type.unwrap_or(SourceType::Any),
                            source: source.copied(),
                            source_port: source_port.copied(),
                        })
                    })
                })
            })
        })
    }
}

impl Rule<'_> {
    /// Returns whether its conditions before the transport protocol can be true. Without `use_original_dst` and
    /// listener filters, the port and the server name of a connection are unknown (gRFC A36).
    pub(super) fn reaches_transport(&self) -> bool {
        self.destination_port.is_none() && self.server_name.is_none()
    }

    /// Returns whether a connection can match it, if no other rule is more specific.
    pub(super) fn can_match(&self) -> bool {
        self.reaches_transport()
            && matches!(self.transport_protocol, "" | RAW_BUFFER)
            && self.application_protocol.is_none()
    }
}

fn ranges(
    protos: &[envoy_types::pb::envoy::config::core::v3::CidrRange],
    field: &str,
) -> Result<Vec<Cidr>, Invalid> {
    let ranges = protos.iter().enumerate();
    ranges
        .map(|(index, range)| Cidr::clamped(range).within_index(field, index))
        .collect()
}

/// Returns the values of a field, or one `None` if it has none.
fn or_any<T>(values: &[T]) -> impl Iterator<Item = Option<&T>> {
    let none = values.is_empty().then_some(None);
    none.into_iter().chain(values.iter().map(Some))
}
