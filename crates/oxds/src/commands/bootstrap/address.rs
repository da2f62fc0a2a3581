//! `HOST:PORT`, as written on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host name or IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: Host,
    pub(super) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Ip(IpAddr),
    Name(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| "a host and a port: 127.0.0.1:18000".to_owned())?;
        let port = match port.parse() {
            Ok(0) | Err(_) => return Err(format!("port {port:?} is not in 1..65535")),
            Ok(port) => port,
        };
        let host = Host::from_str(host)?;
        Ok(Self { host, port })
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(ip) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            let ip = ip.parse::<Ipv6Addr>();
            return ip.map(|ip| Self::Ip(ip.into())).map_err(|e| e.to_string());
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return match ip {
                IpAddr::V4(_) => Ok(Self::Ip(ip)),
                IpAddr::V6(_) => Err(format!("write an IPv6 address as [{ip}]:PORT")),
            };
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if text.is_empty() || !text.chars().all(allowed) {
            return Err(format!("{text:?} is not a host name"));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "127.0.0.1:18000",
            "[::1]:1",
            "xds.example.com:443",
            "localhost:80",
        ] {
            assert_eq!(
                text.parse::<Address>().map(|a| a.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("localhost", "a host and a port"),
            ("localhost:0", "not in 1..65535"),
            ("localhost:http", "\"http\" is not in"),
            ("::1:80", "write an IPv6 address as [::1]:PORT"),
            (":80", "not a host name"),
            ("http://x:80", "not a host name"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
