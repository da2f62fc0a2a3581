//! `HOST:PORT` on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host name or IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// A host, as an IP address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Ip(IpAddr),
    Name(String),
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| "expected a host and a port: 127.0.0.1:18000".to_owned())?;
        let port = match port.parse() {
            Ok(0) | Err(_) => return Err(format!("invalid port {port:?}: expected 1 to 65535")),
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
                IpAddr::V6(_) => Err(format!(
                    "IPv6 address without brackets: expected [{ip}]:PORT"
                )),
            };
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if text.is_empty() || !text.chars().all(allowed) {
            return Err(format!(
                "invalid host name {text:?}: expected letters, digits, '-', '.' and '_'"
            ));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl fmt::Display for HostPort {
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
    fn parse_and_display_round_trip() {
        for text in [
            "127.0.0.1:18000",
            "[::1]:1",
            "xds.example.com:443",
            "localhost:80",
        ] {
            assert_eq!(
                text.parse::<HostPort>().map(|a| a.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn malformed_addresses_are_errors() {
        for (text, expected) in [
            ("localhost", "expected a host and a port"),
            ("localhost:0", "expected 1 to 65535"),
            ("localhost:http", "invalid port \"http\""),
            ("::1:80", "expected [::1]:PORT"),
            (":80", "invalid host name"),
            ("http://x:80", "invalid host name"),
        ] {
            let error = text.parse::<HostPort>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
