//! Control planes that are polled.

use std::time::Duration;

use oxds_core::poll::PollTiming;

use super::config::{SourceError, server};
use crate::bootstrap::Server;
use crate::credentials::{ChannelCredentials, Configured};

/// Between polls, unless told.
const REFRESH_DELAY: Duration = Duration::from_secs(5);
/// As in Envoy's API, unless told.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

const HTTP: &str = "http://";
const HTTPS: &str = "https://";

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
    pub(crate) pace: PollTiming,
}

impl Rest {
    /// A server by its URL: `http://host:port`, or `https://host:port` (feature `tls`) with a certificate of an authority
    /// that this machine believes; and a path if discovery is below one.
    ///
    /// # Errors
    /// The URL is none, or of `https` without the feature.
    pub fn new(url: &str) -> Result<Self, SourceError> {
        let credentials = match url.starts_with(HTTPS) {
            true => system_tls().ok_or_else(|| wrong(url, "needs the feature `tls`"))?,
            false => Configured::insecure(),
        };
        Self::with_credentials(url, credentials)
    }

    /// A server by its URL, connected to as these say.
    ///
    /// # Errors
    /// The URL is none; or it is of `http` and they are not for plaintext, or the other way round.
    pub fn with_credentials(
        url: &str,
        credentials: Configured<dyn ChannelCredentials>,
    ) -> Result<Self, SourceError> {
        let wrong = |reason| wrong(url, reason);
        let (rest, port) = match (url.strip_prefix(HTTP), url.strip_prefix(HTTPS)) {
            (Some(rest), _) if !credentials.is_private() => (rest, 80),
            (_, Some(rest)) if credentials.is_private() => (rest, 443),
            (Some(_), _) => return Err(wrong("is of plaintext: over TLS it is https://")),
            (_, Some(_)) => return Err(wrong("is of TLS: in plaintext it is http://")),
            (None, None) => return Err(wrong("does not begin with http:// or https://")),
        };
        let (host_port, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host_port = match host_port.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host_port.to_owned(),
            _ => format!("{host_port}:{port}"),
        };
        let path = path.trim_end_matches('/');
        if path.contains(['?', '#', ' ']) {
            return Err(wrong("has more than a path"));
        }
        let mut server = server("url", &host_port)?;
        server.credentials = credentials;
        let mut rest = Self::of(server);
        if !path.is_empty() {
            rest.prefix = format!("/{path}");
        }
        Ok(rest)
    }

    /// A server as a bootstrap has it: over TLS, if its credentials say so; every poll shows its call credentials then.
    #[must_use]
    pub fn of(server: Server) -> Self {
        Self {
            servers: vec![server],
            prefix: String::new(),
            pace: PollTiming {
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

fn wrong(url: &str, reason: &str) -> SourceError {
    SourceError::field("url", format!("{url:?} {reason}"))
}

/// By the authorities of this machine.
#[cfg(feature = "tls")]
fn system_tls() -> Option<Configured<dyn ChannelCredentials>> {
    Some(Configured::tls(Default::default()))
}

#[cfg(not(feature = "tls"))]
fn system_tls() -> Option<Configured<dyn ChannelCredentials>> {
    None
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
            ("https://cp/a", "cp:443", "/a"),
            ("https://cp:8443", "cp:8443", ""),
        ] {
            let rest = Rest::new(url).unwrap();
            assert_eq!(rest.servers[0].address.authority(), authority);
            assert_eq!(rest.prefix, prefix, "{url}");
            let is_private = rest.servers[0].credentials.is_private();
            assert_eq!(is_private, url.starts_with("https"), "{url}");
        }
        for url in [
            "cp:1",
            "ftp://cp",
            "http://",
            "https://",
            "http://cp:x",
            "http://cp/?q",
        ] {
            let error = Rest::new(url).unwrap_err().to_string();
            assert!(error.starts_with("url: "), "{error}");
        }
    }

    #[test]
    fn a_url_and_its_credentials_agree() {
        let tls = || system_tls().unwrap();
        assert!(Rest::with_credentials("https://cp", tls()).is_ok());
        for (url, credentials, told) in [
            ("http://cp", tls(), "it is https://"),
            ("https://cp", Configured::insecure(), "it is http://"),
        ] {
            let error = Rest::with_credentials(url, credentials).unwrap_err();
            assert!(error.to_string().ends_with(told), "{error}");
        }
    }
}
