//! Sessions: RPCs with the same cookie go to the same endpoint (gRFC A55, A60).
//!
//! ```text
//!  cookie of the request ─ read ─► SessionTarget ─ cluster ───► the route has it? then the RPC goes there
//!                                        │ addresses
//!                                        ▼
//!                                   choose_host ─► use, connect, wait, or the pick of the policy
//!                                        │
//!  cookie of the response ◄─ set_cookie ─┴─ another endpoint or cluster served the RPC
//! ```
//!
//! The value of a cookie is the Base64 of `ADDRESS,ADDRESS;CLUSTER`: the address in use, other addresses of the same
//! endpoint, and the cluster of the route. gRPC C-core has the same format.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use smallvec::SmallVec;

use super::priorities::Connectivity;

/// Maximum length of the value of a cookie, in bytes. Browsers keep cookies of up to 4096 bytes (RFC 6265, section
/// 6.1).
const MAX_VALUE: usize = 4096;

/// As in C-core, a cookie is read with or without its padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Session that a cookie keeps at one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Name of the cookie; not empty.
    pub cookie: String,
    /// `Max-Age` of the cookie; zero for a cookie that ends with its session.
    pub ttl: Duration,
    /// Path of the requests that have the session; empty for all requests.
    pub path: String,
}

/// Endpoint and cluster of a session. The default is that of a session that has none yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionTarget {
    addresses: SmallVec<[SocketAddr; 1]>,
    cluster: Box<str>,
}

/// State of an address that a session prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// The address cannot be used: it is not in the cluster, its health does not allow it, or it is ejected.
    Unusable,
    /// The address can be used, but sessions do not share a connection to it.
    Unconnected,
    /// There is a connection with this state.
    Connection(Connectivity),
}

/// Decision for an RPC of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostChoice {
    /// Send the RPC to the address with this index.
    Use(usize),
    /// Wait, and connect the address with this index.
    Connect(usize),
    /// Wait for an address that connects.
    Wait,
    /// No address can be used: the policy of the cluster picks.
    Delegate,
}

impl SessionConfig {
    /// Returns whether requests with this path have the session.
    #[must_use]
    pub fn applies_to(&self, path: &str) -> bool {
        // RFC 6265, section 5.1.4: the path of the cookie is the whole path, or a prefix that ends before a slash.
        path.strip_prefix(&self.path).is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with('/')
                || self.path.is_empty()
                || self.path.ends_with('/')
        })
    }

    /// Reads the session of a request from its `cookie` headers. A request without the cookie, or with one that is
    /// malformed or too long, begins a session.
    pub fn read<'a>(&self, headers: impl IntoIterator<Item = &'a [u8]>) -> SessionTarget {
        // RFC 9113, section 8.2.3: cookies may be in several headers.
        let cookies = headers
            .into_iter()
            .flat_map(|one| one.split(|c| *c == b';'));
        let value_of = |cookie: &'a [u8]| {
            let rest = cookie.trim_ascii().strip_prefix(self.cookie.as_bytes())?;
            rest.strip_prefix(b"=")
        };
        // gRFC A55: of several cookies with this name, the first counts.
        let value = cookies.into_iter().find_map(value_of);
        value.and_then(SessionTarget::decode).unwrap_or_default()
    }

    /// Returns the value of the `set-cookie` header for a session that has this target now.
    #[must_use]
    pub fn set_cookie(&self, target: &SessionTarget) -> String {
        let mut text = String::new();
        for address in &target.addresses {
            let separator = if text.is_empty() { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(text, "{separator}{address}");
        }
        let _ = write!(text, ";{}", target.cluster);
        let mut cookie = format!("{}={}; HttpOnly", self.cookie, BASE64.encode(text));
        if !self.path.is_empty() {
            let _ = write!(cookie, "; Path={}", self.path);
        }
        if !self.ttl.is_zero() {
            // Browsers delete a cookie whose age is zero.
            let _ = write!(cookie, "; Max-Age={}", self.ttl.as_secs().max(1));
        }
        cookie
    }
}

impl SessionTarget {
    /// Makes the target of an endpoint with these addresses, of which the first is in use, in a cluster that the route
    /// names.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>, cluster: &str) -> Self {
        Self {
            addresses: addresses.into_iter().collect(),
            cluster: cluster.into(),
        }
    }

    /// Returns the addresses, in the order of preference; empty for a session that begins.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the name of the cluster; empty for a session without a cluster.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    fn decode(value: &[u8]) -> Option<Self> {
        /// Three bytes for four characters.
        const MAX_DECODED: usize = MAX_VALUE / 4 * 3;
        let unquoted = value
            .strip_prefix(b"\"")
            .and_then(|v| v.strip_suffix(b"\""));
        let value = unquoted.unwrap_or(value);
        if value.len() > MAX_VALUE {
            return None;
        }
        let mut decoded = [0; MAX_DECODED];
        let length = BASE64.decode_slice(value, &mut decoded).ok()?;
        let text = std::str::from_utf8(decoded.get(..length)?).ok()?;
        // gRFC A60: the cluster follows a semicolon. Cookies made before have none.
        let (addresses, cluster) = text.split_once(';').unwrap_or((text, ""));
        let addresses = addresses.split(',').map(str::parse);
        Some(Self {
            addresses: addresses.collect::<Result<_, _>>().ok()?,
            cluster: cluster.into(),
        })
    }
}

/// Chooses among the addresses of a session, in the order of its cookie (gRFC A75).
#[must_use]
pub fn choose_host(hosts: impl IntoIterator<Item = HostState>) -> HostChoice {
    let (mut idle, mut unconnected, mut is_connecting) = (None, None, false);
    for (index, host) in hosts.into_iter().enumerate() {
        match host {
            HostState::Connection(Connectivity::Ready) => return HostChoice::Use(index),
            HostState::Connection(Connectivity::Idle) => idle = idle.or(Some(index)),
            HostState::Connection(Connectivity::Connecting) => is_connecting = true,
            HostState::Unconnected => unconnected = unconnected.or(Some(index)),
            HostState::Connection(Connectivity::TransientFailure) | HostState::Unusable => {}
        }
    }
    // gRFC A75: without a ready address, an idle one connects; a new connection is the last resort.
    match (idle, is_connecting, unconnected) {
        (Some(index), _, _) | (None, false, Some(index)) => HostChoice::Connect(index),
        (None, true, _) => HostChoice::Wait,
        (None, false, None) => HostChoice::Delegate,
    }
}
