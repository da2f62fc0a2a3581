//! Addresses of etcd members, as operators write them.

use std::fmt;
use std::str::FromStr;

use oxds_net::transport::ServerUri;

/// Port of etcd's client API (registered with IANA).
const DEFAULT_PORT: u16 = 2379;

/// Address of one member: `http://host[:port]` or `https://host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    uri: ServerUri,
    is_secure: bool,
}

/// Addresses of members of one cluster, separated by commas. There is at least one, all have the same scheme, and none
/// is there twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints(Vec<Endpoint>);

/// Reason why a text is not the address of etcd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The text has no scheme, or another one.
    #[error("malformed etcd URL {0:?}: expected http://host:port or https://host:port")]
    Scheme(String),
    /// The host or the port is malformed.
    #[error("malformed etcd URL {url:?}: {reason}")]
    Host {
        /// The text.
        url: String,
        /// The broken rule.
        reason: String,
    },
    /// The text has a path, a query or a user.
    #[error("malformed etcd URL {url:?}: it must not have a {part}")]
    Part {
        /// The text.
        url: String,
        /// The part.
        part: &'static str,
    },
    /// A member is there twice.
    #[error("etcd URL {0} is there twice")]
    Twice(Endpoint),
    /// Some addresses are secure and some are not.
    #[error("etcd URLs {0} and {1} mix http and https: expected one of them for all members")]
    Mixed(Endpoint, Endpoint),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Self, EndpointError> {
        let (is_secure, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(EndpointError::Scheme(url.to_owned())),
        };
        let host = rest.strip_suffix('/').unwrap_or(rest);
        for (mark, part) in [
            ("?", "query"),
            ("#", "fragment"),
            ("/", "path"),
            ("@", "user"),
        ] {
            if host.contains(mark) {
                let url = url.to_owned();
                return Err(EndpointError::Part { url, part });
            }
        }
        // The last colon of an IPv6 address belongs to it, unless it follows the bracket.
        let has_port = match host.rsplit_once(']') {
            Some((_, after)) => after.starts_with(':'),
            None => host.contains(':'),
        };
        let with_port = if has_port {
            host.to_owned()
        } else {
            format!("{host}:{DEFAULT_PORT}")
        };
        let malformed = |reason| EndpointError::Host {
            url: url.to_owned(),
            reason,
        };
        let uri = if host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[') {
            ServerUri::parse(&with_port).map_err(malformed)?
        } else {
            return Err(malformed("it has no host".to_owned()));
        };
        Ok(Self { uri, is_secure })
    }
}

impl Endpoint {
    /// Returns whether connections to the member use TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns the address to connect to.
    pub(super) fn uri(&self) -> &ServerUri {
        &self.uri
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.uri.authority())
    }
}

impl FromStr for Endpoints {
    type Err = EndpointError;

    fn from_str(urls: &str) -> Result<Self, EndpointError> {
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for url in urls.split(',') {
            let endpoint: Endpoint = url.trim().parse()?;
            if endpoints.contains(&endpoint) {
                return Err(EndpointError::Twice(endpoint));
            }
            match endpoints.first() {
                // A connection that falls back to plaintext would send password and data in the clear (G-32).
                Some(first) if first.is_secure != endpoint.is_secure => {
                    return Err(EndpointError::Mixed(first.clone(), endpoint));
                }
                _ => endpoints.push(endpoint),
            }
        }
        Ok(Self(endpoints))
    }
}

impl Endpoints {
    /// Returns whether connections use TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.iter().any(Endpoint::is_secure)
    }

    /// Returns the addresses, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter()
    }
}

/// The choice of one member: the next one in the order of the list, after a failure.
#[derive(Debug, Clone)]
pub struct Members {
    endpoints: Endpoints,
    current: usize,
}

impl Members {
    /// Starts with a member. `start` may be any number, such as a random one: replicas that start with different
    /// members share the load.
    #[must_use]
    pub fn new(endpoints: Endpoints, start: usize) -> Self {
        Self {
            current: start % endpoints.0.len().max(1),
            endpoints,
        }
    }

    /// Returns the chosen member.
    #[must_use]
    pub fn current(&self) -> &Endpoint {
        &self.endpoints.0[self.current]
    }

    /// Returns the number of members to choose from.
    #[must_use]
    pub fn count(&self) -> usize {
        self.endpoints.0.len()
    }

    /// Chooses the next member, or the same one if there is no other.
    pub fn use_next(&mut self) {
        self.current = (self.current + 1) % self.endpoints.0.len().max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(urls: &str) -> String {
        urls.parse::<Endpoints>().unwrap_err().to_string()
    }

    #[test]
    fn g33_urls_are_read_with_scheme_and_default_port() {
        for (url, shown, is_secure) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1", false),
            (
                "https://etcd-0.example/",
                "https://etcd-0.example:2379",
                true,
            ),
            ("http://[::1]", "http://[::1]:2379", false),
            ("https://[::1]:7", "https://[::1]:7", true),
        ] {
            let endpoint: Endpoint = url.parse().unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(endpoint.is_secure(), is_secure, "{url}");
        }
    }

    #[test]
    fn g33_malformed_urls_name_the_rule() {
        for (url, text) in [
            ("", "expected http://host:port or https://host:port"),
            ("etcd:2379", "expected http://host:port"),
            ("unix:///run/etcd", "expected http://host:port"),
            ("http://", "it has no host"),
            ("http://:2379", "it has no host"),
            ("http://a:b", "is not of the form host:port"),
            ("http://a:1/x", "must not have a path"),
            ("https://me:secret@a:1", "must not have a user"),
            ("http://a:1,http://a:1/", "http://a:1 is there twice"),
            ("https://a:1,http://b:1", "mix http and https"),
            ("http://a:1,", "expected http://host:port"),
        ] {
            assert!(fault(url).contains(text), "{url}: {}", fault(url));
        }
    }

    #[test]
    fn g17_members_are_chosen_in_turn() {
        let endpoints: Endpoints = "http://a:1,http://b:1, http://c:1".parse().unwrap();
        let mut members = Members::new(endpoints, 7);
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(members.current().to_string());
            members.use_next();
        }
        assert_eq!(
            seen,
            ["http://b:1", "http://c:1", "http://a:1", "http://b:1"]
        );
    }
}
