//! Where a server is: the gRPC target in `server_uri`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A gRPC target that can be dialled (C-10).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerUri {
    place: Place,
    authority: String,
}

/// Where to connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// To one of these addresses, tried in order.
    Addresses(Vec<SocketAddr>),
    /// To the addresses of a name.
    Name(String, u16),
    /// To a socket in the file system.
    Unix(PathBuf),
}

const DEFAULT_PORT: u16 = 443;

impl ServerUri {
    /// Reads `host:port`, `dns:///host:port`, `ipv4:a.b.c.d:port[,…]`, `ipv6:[a::b]:port[,…]`, `unix:path` or
    /// `unix:///path` (gRPC name resolution).
    ///
    /// # Errors
    /// What is wrong with it, as a clause.
    pub fn parse(uri: &str) -> Result<Self, String> {
        if let Some(path) = uri.strip_prefix("unix:") {
            return Self::unix(path);
        }
        if let Some(list) = uri.strip_prefix("ipv4:") {
            return Self::addresses(list, "IPv4", IpAddr::is_ipv4);
        }
        if let Some(list) = uri.strip_prefix("ipv6:") {
            return Self::addresses(list, "IPv6", IpAddr::is_ipv6);
        }
        let host_port = match uri.strip_prefix("dns:") {
            // An authority would be the DNS server to ask: the system's own is asked here.
            Some(rest) => match rest.strip_prefix("//") {
                Some(rest) => rest.split_once('/').map_or("", |(_, host_port)| host_port),
                None => rest,
            },
            None => uri,
        };
        Self::name(host_port).ok_or_else(|| format!("{uri:?} is not of the form host:port"))
    }

    /// A server at an address.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self {
            place: Place::Addresses(vec![address]),
            authority: address.to_string(),
        }
    }

    fn unix(path: &str) -> Result<Self, String> {
        let path = match path.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            Some(_) => return Err("a unix:// path must be absolute, with three slashes".to_owned()),
            None => path,
        };
        match path {
            "" => Err("names no path".to_owned()),
            // No host stands in it; gRPC's own stacks say localhost.
            path => Ok(Self {
                place: Place::Unix(path.into()),
                authority: "localhost".to_owned(),
            }),
        }
    }

    fn addresses(list: &str, family: &str, belongs: fn(&IpAddr) -> bool) -> Result<Self, String> {
        let parse = |text: &str| {
            address(text)
                .filter(|address| belongs(&address.ip()))
                .ok_or_else(|| format!("{text:?} is not an {family} address and a port"))
        };
        let addresses = list
            .split(',')
            .map(parse)
            .collect::<Result<Vec<SocketAddr>, _>>()?;
        let authority = addresses
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        Ok(Self {
            place: Place::Addresses(addresses),
            authority,
        })
    }

    fn name(host_port: &str) -> Option<Self> {
        if let Ok(address) = host_port.parse() {
            return Some(Self::at(address));
        }
        let (host, port) = match host_port.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (host_port, DEFAULT_PORT),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        (!host.is_empty() && host.chars().all(is_host)).then(|| Self {
            place: Place::Name(host.to_owned(), port),
            authority: host_port.to_owned(),
        })
    }

    /// Where to connect.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whom to expect there: a DNS name or an IP address.
    #[must_use]
    pub fn host(&self) -> &str {
        // Only a name may stand without its port, and no name has a colon.
        let (host, _) = self
            .authority
            .rsplit_once(':')
            .unwrap_or((&self.authority, ""));
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The `:authority` of requests.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// An address, with or without its port.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = |text: &str| {
        let ip = text.trim_start_matches('[').trim_end_matches(']').parse();
        ip.map(|ip: IpAddr| SocketAddr::new(ip, DEFAULT_PORT))
    };
    text.parse().or_else(|_| bare(text)).ok()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(addresses) => {
                for (index, address) in addresses.iter().enumerate() {
                    write!(f, "{}{address}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10_every_form_of_target_is_read() {
        let v4 = "127.0.0.1:1".parse().unwrap();
        let v6 = "[::1]:2".parse().unwrap();
        for (uri, place) in [
            ("cp.example:80", Place::Name("cp.example".into(), 80)),
            ("cp.example", Place::Name("cp.example".into(), 443)),
            ("dns:///cp.example:80", Place::Name("cp.example".into(), 80)),
            ("dns:cp:80", Place::Name("cp".into(), 80)),
            ("127.0.0.1:1", Place::Addresses(vec![v4])),
            ("ipv4:127.0.0.1:1", Place::Addresses(vec![v4])),
            ("ipv6:[::1]:2", Place::Addresses(vec![v6])),
            ("unix:relative/path", Place::Unix("relative/path".into())),
            (
                "unix:///etc/istio/xds",
                Place::Unix("/etc/istio/xds".into()),
            ),
        ] {
            assert_eq!(ServerUri::parse(uri).unwrap().place(), &place, "{uri}");
        }
    }

    #[test]
    fn c16_a_peer_is_expected_by_its_host() {
        for (uri, host) in [
            ("cp.example:80", "cp.example"),
            ("cp.example", "cp.example"),
            ("dns:///cp:1", "cp"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("ipv6:[::1]:2", "::1"),
            ("ipv6:::1", "::1"),
            ("unix:/run/cp", "localhost"),
        ] {
            assert_eq!(ServerUri::parse(uri).unwrap().host(), host, "{uri}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for uri in [
            "",
            "cp:port",
            "ipv4:cp:1",
            "unix:",
            "unix://relative",
            "http://cp:1",
            "a b:1",
        ] {
            assert!(ServerUri::parse(uri).is_err(), "{uri}");
        }
    }
}
