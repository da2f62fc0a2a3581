//! Address of a server: the gRPC target in `server_uri`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A gRPC target that this client can connect to (C-10).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerUri {
    target: DialTarget,
    authority: String,
}

/// Address to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DialTarget {
    /// IP addresses with ports, tried in order.
    Addresses(Vec<SocketAddr>),
    /// Host name and port; its addresses are looked up by DNS.
    Name(String, u16),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
}

const DEFAULT_PORT: u16 = 443;

impl ServerUri {
    /// Parses `host:port`, `dns:///host:port`, `ipv4:a.b.c.d:port[,…]`, `ipv6:[a::b]:port[,…]`, `unix:path` or
    /// `unix:///path` (gRPC name resolution). The default port is 443.
    ///
    /// # Errors
    /// The rule that the text breaks, as a clause.
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
            // The authority of a `dns:` target is a DNS server. It is ignored: the system's resolver is used.
            Some(rest) => match rest.strip_prefix("//") {
                Some(rest) => rest.split_once('/').map_or("", |(_, host_port)| host_port),
                None => rest,
            },
            None => uri,
        };
        Self::name(host_port).ok_or_else(|| format!("{uri:?} is not of the form host:port"))
    }

    /// Returns the URI of a server at an address.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self {
            target: DialTarget::Addresses(vec![address]),
            authority: address.to_string(),
        }
    }

    fn unix(path: &str) -> Result<Self, String> {
        let path = match path.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            // gRPC name resolution: `unix://` requires an absolute path, `unix:` does not.
            Some(_) => return Err("a unix:// path must be absolute, with three slashes".to_owned()),
            None => path,
        };
        match path {
            "" => Err("unix: target without a path".to_owned()),
            // The URI contains no host; gRPC's implementations send `localhost` as the authority.
            path => Ok(Self {
                target: DialTarget::Unix(path.into()),
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
            target: DialTarget::Addresses(addresses),
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
            target: DialTarget::Name(host.to_owned(), port),
            authority: host_port.to_owned(),
        })
    }

    /// Returns the address to connect to.
    #[must_use]
    pub fn target(&self) -> &DialTarget {
        &self.target
    }

    /// Returns the host that the server's certificate must name: a DNS name or an IP address.
    #[must_use]
    pub fn host(&self) -> &str {
        // Only a host name may come without a port, and a host name contains no colon.
        let (host, _) = self
            .authority
            .rsplit_once(':')
            .unwrap_or((&self.authority, ""));
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the `:authority` of requests.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// Parses an IP address with or without a port.
fn address(text: &str) -> Option<SocketAddr> {
    let bare = |text: &str| {
        let ip = text.trim_start_matches('[').trim_end_matches(']').parse();
        ip.map(|ip: IpAddr| SocketAddr::new(ip, DEFAULT_PORT))
    };
    text.parse().or_else(|_| bare(text)).ok()
}

impl fmt::Display for DialTarget {
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
    fn c10_all_target_forms_are_parsed() {
        let v4 = "127.0.0.1:1".parse().unwrap();
        let v6 = "[::1]:2".parse().unwrap();
        for (uri, target) in [
            ("cp.example:80", DialTarget::Name("cp.example".into(), 80)),
            ("cp.example", DialTarget::Name("cp.example".into(), 443)),
            (
                "dns:///cp.example:80",
                DialTarget::Name("cp.example".into(), 80),
            ),
            ("dns:cp:80", DialTarget::Name("cp".into(), 80)),
            ("127.0.0.1:1", DialTarget::Addresses(vec![v4])),
            ("ipv4:127.0.0.1:1", DialTarget::Addresses(vec![v4])),
            ("ipv6:[::1]:2", DialTarget::Addresses(vec![v6])),
            (
                "unix:relative/path",
                DialTarget::Unix("relative/path".into()),
            ),
            (
                "unix:///etc/istio/xds",
                DialTarget::Unix("/etc/istio/xds".into()),
            ),
        ] {
            assert_eq!(ServerUri::parse(uri).unwrap().target(), &target, "{uri}");
        }
    }

    #[test]
    fn c16_expected_host_is_the_targets_host() {
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
    fn invalid_targets_are_rejected() {
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
