//! Ranges of IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Range of IP addresses of one family: a network, and the length of its prefix.
///
/// The bits of the network after the prefix are zero, so equal ranges are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    network: IpAddr,
    length: u8,
}

impl Cidr {
    /// Makes the range of the addresses that share their first `length` bits with `address`; `None` if the address has
    /// fewer bits.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let unused = bits(address).checked_sub(length)?;
        let network = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(u32::from(unused)).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(u32::from(unused)).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Some(Self { network, length })
    }

    /// Returns the first address of the range.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// Returns the number of bits that all addresses of the range share.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Returns whether the range has this address. An IPv4 address inside IPv6 (`::ffff:a.b.c.d`) counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.network.is_ipv4() == address.is_ipv4()
            && Self::new(address, self.length) == Some(*self)
    }
}

/// Returns the number of bits of an address.
pub(crate) fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(address: &str, length: u8) -> Cidr {
        Cidr::new(address.parse().unwrap(), length).unwrap()
    }

    #[test]
    fn cidr_contains_addresses_with_its_prefix() {
        for (range, inside, outside) in [
            (cidr("10.1.2.3", 8), "10.255.0.1", "11.0.0.0"),
            (cidr("10.1.2.3", 32), "10.1.2.3", "10.1.2.2"),
            (cidr("0.0.0.0", 0), "255.1.1.1", "::1"),
            (cidr("2001:db8::1", 32), "2001:db8:ffff::", "2001:db9::"),
            (cidr("::", 0), "ff::", "1.1.1.1"),
            (cidr("10.0.0.0", 8), "::ffff:10.9.9.9", "::ffff:11.0.0.1"),
        ] {
            assert!(
                range.contains(inside.parse().unwrap()),
                "{range:?} {inside}"
            );
            assert!(
                !range.contains(outside.parse().unwrap()),
                "{range:?} {outside}"
            );
        }
    }

    #[test]
    fn cidr_ignores_bits_after_its_prefix() {
        assert_eq!(cidr("10.1.2.3", 8), cidr("10.0.0.0", 8));
        assert_ne!(cidr("10.1.2.3", 8), cidr("10.0.0.0", 9));
        assert_eq!(Cidr::new("10.0.0.0".parse().unwrap(), 33), None);
        assert_eq!(Cidr::new("::".parse().unwrap(), 129), None);
    }
}
