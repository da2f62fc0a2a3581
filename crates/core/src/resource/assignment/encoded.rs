//! Encoded assignments, whose endpoints are read one by one.
//!
//! An assignment comes whole whenever one of its endpoints changes, and may have 10,000 of them. So endpoints of the
//! form that nearly all have, an address with a weight, a health status and a host name, are read from their bytes.
//! Every other one is decoded, which takes several times as long and finds what is wrong with it.
//!
//! ```text
//!  ClusterLoadAssignment ──► localities ──► encoded endpoints ──┬─ common form ────────────────► Endpoint
//!                                                               └─ every other one: LbEndpoint ─► Endpoint, or Invalid
//! ```

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{Locality, Metadata};
use envoy_types::pb::envoy::config::endpoint::v3::cluster_load_assignment::Policy;
use envoy_types::pb::envoy::config::endpoint::v3::{
    Endpoint as EndpointProto, locality_lb_endpoints,
};
use envoy_types::pb::google::protobuf::UInt32Value;
use prost::encoding::{WireType, decode_key, decode_varint};

/// `ClusterLoadAssignment`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncodedAssignment {
    #[prost(string, tag = "1")]
    pub(super) cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) endpoints: Vec<EncodedLocality>,
    #[prost(message, optional, tag = "4")]
    pub(super) policy: Option<Policy>,
    // Decoded, so that it cannot be malformed.
    #[prost(map = "string, message", tag = "5")]
    named_endpoints: HashMap<String, EndpointProto>,
}

/// `LocalityLbEndpoints`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncodedLocality {
    #[prost(message, optional, tag = "1")]
    pub(super) locality: Option<Locality>,
    /// Each an `LbEndpoint`.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) lb_endpoints: Vec<Bytes>,
    #[prost(message, optional, tag = "3")]
    pub(super) load_balancing_weight: Option<UInt32Value>,
    #[prost(uint32, tag = "5")]
    pub(super) priority: u32,
    // Decoded, so that they cannot be malformed.
    #[prost(message, optional, tag = "6")]
    proximity: Option<UInt32Value>,
    #[prost(oneof = "locality_lb_endpoints::LbConfig", tags = "7, 8")]
    lb_config: Option<locality_lb_endpoints::LbConfig>,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
}

/// An endpoint of the common form, which is valid.
pub(super) struct CommonEndpoint<'a> {
    pub(super) address: SocketAddr,
    pub(super) weight: Option<u32>,
    pub(super) hostname: &'a str,
    pub(super) health_status: i32,
}

/// Value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads an encoded `LbEndpoint` of the common form. Returns `None` for another form, and for an invalid endpoint.
pub(super) fn common_endpoint(encoded: &[u8]) -> Option<CommonEndpoint<'_>> {
    let (mut endpoint, mut status, mut weight) = (None, None, None);
    for field in fields(encoded) {
        match field? {
            (1, Value::Bytes(value)) => once(&mut endpoint, value)?,
            (2, Value::Number(value)) => once(&mut status, i32::try_from(value).ok()?)?,
            (4, Value::Bytes(value)) => once(&mut weight, positive(value)?)?,
            _ => return None,
        }
    }
    let (mut address, mut hostname) = (None, None);
    for field in fields(endpoint?) {
        match field? {
            (1, Value::Bytes(value)) => once(&mut address, value)?,
            (3, Value::Bytes(value)) => once(&mut hostname, std::str::from_utf8(value).ok()?)?,
            _ => return None,
        }
    }
    Some(CommonEndpoint {
        address: common_address(address?)?,
        weight,
        hostname: hostname.unwrap_or_default(),
        health_status: status.unwrap_or_default(),
    })
}

/// Reads an `Address` that is a `SocketAddress` with an IP address and the number of a port.
fn common_address(encoded: &[u8]) -> Option<SocketAddr> {
    let mut socket = None;
    for field in fields(encoded) {
        match field? {
            (1, Value::Bytes(value)) => once(&mut socket, value)?,
            _ => return None,
        }
    }
    let (mut protocol, mut ip, mut port) = (None, None, None);
    for field in fields(socket?) {
        match field? {
            (1, Value::Number(value)) => once(&mut protocol, value)?,
            (2, Value::Bytes(value)) => once(&mut ip, std::str::from_utf8(value).ok()?)?,
            (3, Value::Number(value)) => once(&mut port, u16::try_from(value).ok()?)?,
            _ => return None,
        }
    }
    Some(SocketAddr::new(ip?.parse::<IpAddr>().ok()?, port?))
}

/// Reads a `UInt32Value` that is above zero.
fn positive(encoded: &[u8]) -> Option<u32> {
    let mut number = None;
    for field in fields(encoded) {
        match field? {
            (1, Value::Number(value)) => once(&mut number, u32::try_from(value).ok()?)?,
            _ => return None,
        }
    }
    number.filter(|number| *number > 0)
}

/// Sets a field that must occur once. Decoders merge its occurrences.
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

/// Returns the fields of a message with their numbers. An item is `None` for a field that is neither a number nor
/// bytes, and where the message is malformed.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Option<(u32, Value<'_>)>> {
    std::iter::from_fn(move || (!rest.is_empty()).then(|| field(&mut rest)))
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let (number, wire) = decode_key(rest).ok()?;
    let value = match wire {
        WireType::Varint => Value::Number(decode_varint(rest).ok()?),
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
            let (body, after) = rest.split_at_checked(length)?;
            *rest = after;
            Value::Bytes(body)
        }
        _ => return None,
    };
    Some((number, value))
}
