//! REST sources: control planes that are polled.
//!
//! This file describes the source; `feed` decides with `oxds_core::poll` when to poll, `post` sends one poll. These two
//! need the feature `rest`.

#[cfg(feature = "rest")]
mod feed;
#[cfg(feature = "rest")]
mod peer;
#[cfg(feature = "rest")]
mod post;

use std::time::Duration;

use oxds_core::poll::PollTiming;

use super::clusters::plaintext_server;
use super::error::SourceError;
use crate::bootstrap::Server;
use crate::credentials::{ChannelCredentials, Configured};

/// Default delay between polls.
const REFRESH_DELAY: Duration = Duration::from_secs(5);
/// Default time limit of a poll, as in Envoy's API.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

const HTTP: &str = "http://";
const HTTPS: &str = "https://";

/// Control plane that is polled over REST.
///
/// A poll posts a `DiscoveryRequest` in JSON to `/v3/discovery:clusters` or the path of another resource type, at most
/// one at a time per type. If `request_timeout` is at least 1.25 s, the request asks servers to hold the poll until
/// something changes (`Prefer: wait=N`, RFC 7240). A failed poll loses nothing: the next one returns the same
/// resources.
///
/// Polls need the feature `rest`: without it, watches of the source are [`SourceError::FeatureOff`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rest {
    /// In order of preference.
    pub(crate) servers: Vec<Server>,
    /// Path prefix before `/v3/…`.
    pub(crate) prefix: String,
    pub(crate) pace: PollTiming,
}

impl Rest {
    /// Returns a source with one server: `http://host:port` or, with feature `tls`, `https://host:port`. The URL may
    /// have a path prefix. For `https`, the system's certificate authorities are trusted.
    ///
    /// # Errors
    /// [`SourceError::Field`] if the URL is invalid, or is `https` without the feature.
    pub fn new(url: &str) -> Result<Self, SourceError> {
        let credentials = if url.starts_with(HTTPS) {
            system_tls().ok_or_else(|| invalid_url(url, "needs the feature `tls`"))?
        } else {
            Configured::insecure()
        };
        Self::with_credentials(url, credentials)
    }

    /// Returns a source with one server and these channel credentials.
    ///
    /// # Errors
    /// [`SourceError::Field`] if the URL is invalid, or its scheme does not fit the credentials: `http` needs
    /// plaintext,
    /// `https` needs TLS.
    pub fn with_credentials(
        url: &str,
        credentials: Configured<dyn ChannelCredentials>,
    ) -> Result<Self, SourceError> {
        let invalid = |reason| invalid_url(url, reason);
        let (rest, port) = match (url.strip_prefix(HTTP), url.strip_prefix(HTTPS)) {
            (Some(rest), _) if !credentials.is_private() => (rest, 80),
            (_, Some(rest)) if credentials.is_private() => (rest, 443),
            (Some(_), _) => return Err(invalid("must begin with https:// for TLS credentials")),
            (_, Some(_)) => {
                return Err(invalid("must begin with http:// for plaintext credentials"));
            }
            (None, None) => return Err(invalid("must begin with http:// or https://")),
        };
        let (host_port, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host_port = match host_port.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => host_port.to_owned(),
            _ => format!("{host_port}:{port}"),
        };
        let path = path.trim_end_matches('/');
        if path.contains(['?', '#', ' ']) {
            return Err(invalid("must not have a query or a fragment"));
        }
        let mut server = plaintext_server("url", &host_port)?;
        server.credentials = credentials;
        let mut rest = Self::of(server);
        if !path.is_empty() {
            rest.prefix = format!("/{path}");
        }
        Ok(rest)
    }

    /// Returns a source with one server of a bootstrap. Its channel credentials decide between `http` and `https`; over
    /// TLS, every poll carries its call credentials.
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

    /// Adds a server that is used while those before it are unreachable.
    #[must_use]
    pub fn or(mut self, server: Server) -> Self {
        self.servers.push(server);
        self
    }

    /// Sets the delay from an answer to the next poll: 5 s by default. Each delay is varied randomly by up to 20 %.
    #[must_use]
    pub fn refresh_delay(mut self, delay: Duration) -> Self {
        self.pace.refresh_delay = delay;
        self
    }

    /// Sets the time limit of a poll: 1 s by default.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.pace.request_timeout = timeout;
        self
    }
}

fn invalid_url(url: &str, reason: &str) -> SourceError {
    SourceError::field("url", format!("{url:?} {reason}"))
}

/// Returns TLS credentials with the system's certificate authorities.
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
    fn urls_are_parsed() {
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
    fn url_scheme_must_fit_credentials() {
        let tls = || system_tls().unwrap();
        assert!(Rest::with_credentials("https://cp", tls()).is_ok());
        for (url, credentials, expected) in [
            ("http://cp", tls(), "for TLS credentials"),
            (
                "https://cp",
                Configured::insecure(),
                "for plaintext credentials",
            ),
        ] {
            let error = Rest::with_credentials(url, credentials).unwrap_err();
            assert!(error.to_string().ends_with(expected), "{error}");
        }
    }
}
