//! Features of a control plane, and the API version that follows from them (gRFC A30).

use oxds_types::ApiVersion;
use oxds_types::identity::{Major, Majors, NoCommonMajor, negotiate};

/// `server_features` of one server. Servers do not share features (C-20); unknown ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Features {
    /// The server speaks xDS v3 (gRFC A30).
    pub xds_v3: bool,
    /// A resource that the server deletes stays in use (gRFC A53).
    pub ignore_resource_deletion: bool,
    /// Routes from the server may rewrite the authority of RPCs (gRFC A81).
    pub trusted_xds_server: bool,
    /// A data error drops the cached resource (gRFC A88).
    pub fail_on_data_errors: bool,
    /// The resource timer reports a transient error instead of a missing resource (gRFC A88).
    pub resource_timer_is_transient_error: bool,
}

impl Features {
    /// Sets [`xds_v3`](Self::xds_v3).
    #[must_use]
    pub fn with_xds_v3(mut self, xds_v3: bool) -> Self {
        self.xds_v3 = xds_v3;
        self
    }

    /// Sets [`ignore_resource_deletion`](Self::ignore_resource_deletion).
    #[must_use]
    pub fn with_ignore_resource_deletion(mut self, ignore_resource_deletion: bool) -> Self {
        self.ignore_resource_deletion = ignore_resource_deletion;
        self
    }

    /// Sets [`trusted_xds_server`](Self::trusted_xds_server).
    #[must_use]
    pub fn with_trusted_xds_server(mut self, trusted_xds_server: bool) -> Self {
        self.trusted_xds_server = trusted_xds_server;
        self
    }

    /// Sets [`fail_on_data_errors`](Self::fail_on_data_errors).
    #[must_use]
    pub fn with_fail_on_data_errors(mut self, fail_on_data_errors: bool) -> Self {
        self.fail_on_data_errors = fail_on_data_errors;
        self
    }

    /// Sets [`resource_timer_is_transient_error`](Self::resource_timer_is_transient_error).
    #[must_use]
    pub fn with_resource_timer_is_transient_error(
        mut self,
        resource_timer_is_transient_error: bool,
    ) -> Self {
        self.resource_timer_is_transient_error = resource_timer_is_transient_error;
        self
    }
}

/// Experimental fields of TLS contexts that clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TlsFeatures {
    /// `system_root_certs` (gRFC A82): `GRPC_EXPERIMENTAL_XDS_SYSTEM_ROOT_CERTS`.
    pub system_roots: bool,
    /// `sni`, `auto_host_sni` and `auto_sni_san_validation` (gRFC A101): `GRPC_EXPERIMENTAL_XDS_SNI`.
    pub sni: bool,
}

/// Version of the xDS API in which a control plane is asked. It may answer in either version.
///
/// In a bootstrap file it is the field `transport_api_version` of a server, with the names of Envoy's
/// `envoy.config.core.v3.ApiVersion`. gRPC's own clients ignore that field.
///
/// ```
/// use oxds_client::bootstrap::{Bootstrap, TransportPolicy};
///
/// let json = r#"{ "xds_servers": [{
///     "server_uri": "old:18000",
///     "channel_creds": [{ "type": "insecure" }],
///     "transport_api_version": "V2"
/// }] }"#;
/// let bootstrap = Bootstrap::from_json(json)?;
/// assert_eq!(bootstrap.servers()[0].transport, TransportPolicy::V2Only);
/// # Ok::<_, oxds_client::BootstrapError>(())
/// ```
///
/// | JSON | policy |
/// |---|---|
/// | absent, `"V3"` | [`V3Only`](Self::V3Only) |
/// | `"V2"` | [`V2Only`](Self::V2Only) |
/// | `"AUTO"` | [`Auto`](Self::Auto) |
///
/// In code: [`Bootstrap::with_transport`](super::Bootstrap::with_transport),
/// [`Builder::transport`](super::Builder::transport).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TransportPolicy {
    /// Always v3, whatever the server's features are: as gRPC does today (C-49).
    #[default]
    V3Only,
    /// The highest version that server and client share: v3 if the features contain `xds_v3`, else v2, for which no
    /// feature exists (C-50).
    Auto,
    /// Always v2, whatever the server's features are.
    V2Only,
}

impl TransportPolicy {
    /// All policies, in the order of an error message.
    const ALL: [Self; 3] = [Self::V3Only, Self::V2Only, Self::Auto];

    /// Parses the JSON form. The error is a rule, as a clause.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|policy| policy.json_name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|policy| format!("{:?}", policy.json_name()));
            format!("{name:?} is unknown, expected one of {}", names.join(", "))
        })
    }

    /// Returns the JSON form.
    pub(super) fn json_name(self) -> &'static str {
        match self {
            Self::V3Only => "V3",
            Self::V2Only => "V2",
            Self::Auto => "AUTO",
        }
    }

    pub(super) fn version(self, features: Features) -> ApiVersion {
        let both = [Major::V2, Major::V3].into_iter().collect();
        // Every server supports v2, so these majors always have one in common.
        match self.negotiate(features, &both) {
            Ok(Major::V3) => ApiVersion::V3,
            Ok(_) | Err(_) => ApiVersion::V2,
        }
    }

    /// Returns the major for a server with these features.
    ///
    /// # Errors
    /// `Auto`: the server supports none of the majors that `allowed` has. The other policies name a major themselves.
    pub(super) fn negotiate(
        self,
        features: Features,
        allowed: &Majors,
    ) -> Result<Major, NoCommonMajor> {
        match self {
            Self::V3Only => Ok(Major::V3),
            Self::V2Only => Ok(Major::V2),
            // gRFC A30: the client uses the highest transport version that both sides support.
            Self::Auto => {
                let feature = features.xds_v3.then_some("xds_v3");
                negotiate(allowed, &Majors::of_server(feature))
            }
        }
    }
}
