//! `envoy.config.core.v3.CidrRange`: ranges of IP addresses.

use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange;

use super::Invalid;
pub use crate::cidr::Cidr;
use crate::cidr::bits;

impl Cidr {
    /// Reads a range. Without a length, it is 0: the range has all addresses of its family, as in gRPC and Envoy.
    pub(super) fn from_proto(proto: &CidrRange) -> Result<Self, Invalid> {
        let (address, length) = parts(proto)?;
        let range = u8::try_from(length).ok();
        let range = range.and_then(|length| Self::new(address, length));
        range.ok_or_else(|| {
            let rule = format!("must be at most {}, not {length}", bits(address));
            Invalid::new(rule).at("prefix_len")
        })
    }

    /// Reads a range of a filter chain match: a length above the number of bits becomes that number (gRFC A36).
    pub(super) fn clamped(proto: &CidrRange) -> Result<Self, Invalid> {
        let (address, length) = parts(proto)?;
        let most = bits(address);
        let length = u8::try_from(length).map_or(most, |length| length.min(most));
        Self::new(address, length).ok_or_else(|| Invalid::new("is out of range").at("prefix_len"))
    }
}

fn parts(proto: &CidrRange) -> Result<(IpAddr, u32), Invalid> {
    let address = proto.address_prefix.parse().map_err(|_| {
        let rule = format!("{:?} must be an IP address", proto.address_prefix);
        Invalid::new(rule).at("address_prefix")
    })?;
    Ok((address, proto.prefix_len.map_or(0, |length| length.value)))
}
