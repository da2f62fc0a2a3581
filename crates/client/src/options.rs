//! Options of a client that the bootstrap does not contain.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use oxds_core::ads::Protocol;
use oxds_core::resource::{Extensions, ResourceCheck};

use oxds_types::identity::SemVer;
use oxds_types::runtime::{Layer, Snapshot, Value};

use oxds_net::transport::Keepalive;

/// Environment variable that enables the data error handling of gRFC A88 with the value `true`.
const DATA_ERRORS_VARIABLE: &str = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING";

/// Options of a client. The defaults are gRPC's.
///
/// ```
/// use oxds_client::{Options, Protocol};
///
/// let options = Options::default().with_protocol(Protocol::Delta).with_resource_ttl(true);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Variant of the protocol on ADS streams: SotW by default, as in gRPC. Delta sends only what changed, and reports
    /// at once that a resource does not exist.
    pub protocol: Protocol,
    /// Time that a server has to answer for a resource before the resource counts as missing: 15 s by default (gRFC
    /// A27).
    pub resource_timeout: Duration,
    /// Time for which the next response of a stream waits for watchers that have not read the last one: 1 s by default.
    /// A watcher that never reads thus slows the stream down, but does not stop it; it finds the newest update later.
    /// To read means that `next` has returned the update, not that the application has used it (C-87).
    pub slow_watcher_timeout: Duration,
    /// Whether data errors are handled according to gRFC A88, with `fail_on_data_errors` and
    /// `resource_timer_is_transient_error` of each server. The default is the value of
    /// `GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING`, or `false`.
    pub data_error_handling: bool,
    /// Whether resources expire at the end of their TTL: `false` by default, as in gRPC. If `true`, servers learn by a
    /// client feature that they may send TTLs.
    pub resource_ttl: bool,
    /// Newest versions of the resources that this client accepts, by the full name of the message, which has the major.
    /// Servers learn them by [`VersionedTypeUrl`](oxds_types::discovery::VersionedTypeUrl)s, which the first request of
    /// a type then has, and by a client feature (V-50). Default: empty, and nothing is sent.
    pub api_versions: BTreeMap<String, SemVer>,
    /// Maximum size of a response, in bytes: 1 GiB by default. gRPC's usual 4 MiB are too small for a control plane
    /// (C-93); the limit protects this process from a faulty one. A larger response ends the stream.
    pub max_response_bytes: usize,
    /// HTTP/2 keepalive of connections, which detects dead ones: by default a ping after 5 min, with 20 s for its
    /// answer.
    pub keepalive: Keepalive,
    /// Check of every received resource, before it is parsed: none by default. `lifecycle::FieldChecks` makes one that
    /// finds deprecated, unfinished and unknown fields.
    pub resource_check: Option<ResourceCheck>,
    /// Extensions of the program to the configuration of channels: none by default.
    pub extensions: Extensions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::Sotw,
            resource_timeout: Duration::from_secs(15),
            slow_watcher_timeout: Duration::from_secs(1),
            data_error_handling: is_on(&environment()),
            resource_ttl: false,
            api_versions: BTreeMap::new(),
            max_response_bytes: 1 << 30,
            keepalive: Keepalive::default(),
            resource_check: None,
            extensions: Extensions::default(),
        }
    }
}

impl Options {
    /// Returns the defaults, with the features of a runtime in place of those of the environment: its keys have the
    /// names of the variables (V-47).
    #[must_use]
    pub fn in_runtime(runtime: &Snapshot) -> Self {
        Self {
            data_error_handling: is_on(runtime),
            ..Self::default()
        }
    }

    /// Sets [`protocol`](Self::protocol).
    #[must_use]
    pub fn with_protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets [`resource_timeout`](Self::resource_timeout).
    #[must_use]
    pub fn with_resource_timeout(mut self, resource_timeout: Duration) -> Self {
        self.resource_timeout = resource_timeout;
        self
    }

    /// Sets [`slow_watcher_timeout`](Self::slow_watcher_timeout).
    #[must_use]
    pub fn with_slow_watcher_timeout(mut self, slow_watcher_timeout: Duration) -> Self {
        self.slow_watcher_timeout = slow_watcher_timeout;
        self
    }

    /// Sets [`data_error_handling`](Self::data_error_handling).
    #[must_use]
    pub fn with_data_error_handling(mut self, data_error_handling: bool) -> Self {
        self.data_error_handling = data_error_handling;
        self
    }

    /// Sets [`resource_ttl`](Self::resource_ttl).
    #[must_use]
    pub fn with_resource_ttl(mut self, resource_ttl: bool) -> Self {
        self.resource_ttl = resource_ttl;
        self
    }

    /// Sets [`api_versions`](Self::api_versions).
    #[must_use]
    pub fn with_api_versions(mut self, api_versions: BTreeMap<String, SemVer>) -> Self {
        self.api_versions = api_versions;
        self
    }

    /// Sets [`max_response_bytes`](Self::max_response_bytes).
    #[must_use]
    pub fn with_max_response_bytes(mut self, max_response_bytes: usize) -> Self {
        self.max_response_bytes = max_response_bytes;
        self
    }

    /// Sets [`keepalive`](Self::keepalive).
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets [`resource_check`](Self::resource_check).
    #[must_use]
    pub fn with_resource_check(mut self, resource_check: impl Into<Option<ResourceCheck>>) -> Self {
        self.resource_check = resource_check.into();
        self
    }

    /// Sets [`extensions`](Self::extensions).
    #[must_use]
    pub fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }
}

/// Returns the one variable as a runtime.
fn environment() -> Snapshot {
    let value = std::env::var_os(DATA_ERRORS_VARIABLE);
    let variable = value.map(|value| (OsString::from(DATA_ERRORS_VARIABLE), value));
    Snapshot::from_layers(vec![Layer::environment(variable.into_iter())])
}

/// Returns whether the key is `true`, in any case; other values mean the default, `false`.
fn is_on(runtime: &Snapshot) -> bool {
    runtime.get(DATA_ERRORS_VARIABLE) == Some(&Value::Bool(true))
}
