//! Control planes that are polled.

use std::time::Duration;

use oxds_core::poll::Pace;

use super::config::{SourceError, server};
use crate::bootstrap::Server;

/// Between polls, unless told.
const REFRESH_DELAY: Duration = Duration::from_secs(5);
/// As in Envoy's API, unless told.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A control plane that is polled by REST: a `DiscoveryRequest` in JSON is posted to `/v3/discovery:clusters` and the
/// like, at most one of each kind at a time. With a `request_timeout` of some seconds, servers that can hold a poll
/// until something changes are asked to (`Prefer: wait=N`, RFC 7240). What a poll that fails would have brought comes
/// with the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rest {
    /// The most wanted first.
    pub(crate) servers: Vec<Server>,
    /// Before `/v3/…`.
    pub(crate) prefix: String,
    pub(crate) pace: Pace,
}

impl Rest {
    /// A server by its URL: `http://host:port`, and a path if discovery is below one. For TLS see [`of`](Self::of).
    ///
    /// # Errors
    /// The URL is none, or not of plain `http`.
    pub fn new(url: &str) -> Result<Self, SourceError> {
        let wrong = |reason: &str| SourceError::field("url", format!("{url:?} {reason}"));
        let Some(rest) = url.strip_prefix("http://") else {
            return Err(wrong("does not begin with http://"));
        };
        let (host_port, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host_port = match host_port.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host_port.to_owned(),
            _ => format!("{host_port}:80"),
        };
        let path = path.trim_end_matches('/');
        if path.contains(['?', '#', ' ']) {
            return Err(wrong("has more than a path"));
        }
        let mut rest = Self::of(server("url", &host_port)?);
        if !path.is_empty() {
            rest.prefix = format!("/{path}");
        }
        Ok(rest)
    }

    /// A server as a bootstrap has it: over TLS, if its credentials say so. Call credentials are for gRPC.
    #[must_use]
    pub fn of(server: Server) -> Self {
        Self {
            servers: vec![server],
            prefix: String::new(),
            pace: Pace {
                refresh_delay: REFRESH_DELAY,
                request_timeout: REQUEST_TIMEOUT,
            },
        }
    }

    /// A server for when those before it cannot be reached.
    #[must_use]
    pub fn or(mut self, server: Server) -> Self {
        self.servers.push(server);
        self
    }

    /// From an answer to the next poll; changed by up to a fifth each time. 5 s, unless told.
    #[must_use]
    pub fn refresh_delay(mut self, delay: Duration) -> Self {
        self.pace.refresh_delay = delay;
        self
    }

    /// How long a poll may take: 1 s, unless told.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.pace.request_timeout = timeout;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        for (url, authority, prefix) in [
            ("http://cp:8080", "cp:8080", ""),
            ("http://cp/", "cp:80", ""),
            ("http://[::1]:1/a/b/", "[::1]:1", "/a/b"),
            ("http://127.0.0.1:1", "127.0.0.1:1", ""),
        ] {
            let rest = Rest::new(url).unwrap();
            assert_eq!(rest.servers[0].address.authority(), authority);
            assert_eq!(rest.prefix, prefix, "{url}");
        }
        for url in [
            "cp:1",
            "https://cp",
            "http://",
            "http://cp:x",
            "http://cp/?q",
        ] {
            let error = Rest::new(url).unwrap_err().to_string();
            assert!(error.starts_with("url: "), "{error}");
        }
    }
}
