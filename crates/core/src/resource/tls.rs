//! Views of TLS contexts: the security of connections to endpoints, and of connections that a server accepts (gRFC A29,
//! A82, A101).
//!
//! ```text
//!  Cluster.transport_socket ─────► UpstreamTls   ─┐  CertificateInstance, by name   ┌─ certificate_providers
//!  FilterChain.transport_socket ─► DownstreamTls ─┴────────────────────────────────►└─ of the bootstrap
//! ```
//!
//! The resources carry no certificates: they name instances of certificate providers, which the bootstrap defines.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket::ConfigType};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateProviderPluginInstance as InstanceProto, CertificateValidationContext,
    CommonTlsContext, DownstreamTlsContext, SubjectAltNameMatcher, UpstreamTlsContext,
    common_tls_context::{CertificateProviderInstance as OldInstanceProto, ValidationContextType},
    downstream_tls_context::OcspStaplePolicy,
    subject_alt_name_matcher::SanType,
};
use prost::{Message, Name};

use super::Invalid;
use super::convert::message;
use super::invalid::Within;
use super::string_matcher::string_matcher;
use crate::lb::StringMatcher;

/// Security of the connections to the endpoints of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Certificate of this process; `None`: the endpoints get none.
    pub identity: Option<CertificateInstance>,
    /// Authorities that the certificates of endpoints are verified with.
    pub roots: Roots,
    /// Matchers of subject alternative names, of which one must match (C-257). Empty: no name is checked.
    pub san_matchers: Vec<SanMatcher>,
    /// Server name that is sent in the handshake, without gRFC A101 always `None`.
    pub sni: Option<Arc<str>>,
    /// Whether the hostname of an endpoint replaces [`sni`](Self::sni) (gRFC A101).
    pub auto_host_sni: bool,
    /// Whether the certificate must have the server name that was sent; the matchers do not apply then (gRFC A101).
    pub auto_sni_san_validation: bool,
}

/// Security of the connections that a filter chain accepts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DownstreamTls {
    /// Certificate of this process.
    pub identity: CertificateInstance,
    /// Authorities that the certificates of clients are verified with; `None`: clients are not asked for one.
    pub roots: Option<Roots>,
    /// Whether a client without a certificate is denied; `roots` is then set.
    pub require_client_certificate: bool,
}

/// A certificate of a provider instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateInstance {
    /// Name of the instance in `certificate_providers` of the bootstrap.
    pub instance_name: Arc<str>,
    /// Name of the certificate at the instance; `file_watcher` has only one, and ignores it.
    pub certificate_name: Arc<str>,
}

/// Certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Roots {
    /// Those of a provider instance.
    Instance(CertificateInstance),
    /// Those that the operating system trusts (gRFC A82).
    System,
}

/// Matcher of subject alternative names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SanMatcher {
    /// Type of the names that it applies to; `None`: all types.
    pub of: Option<SanKind>,
    /// Condition on the name.
    pub matcher: StringMatcher,
}

/// Type of a subject alternative name (RFC 5280 §4.2.1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SanKind {
    /// DNS name.
    Dns,
    /// URI, such as a SPIFFE ID.
    Uri,
    /// Email address.
    Email,
    /// IP address.
    Ip,
}

/// Facts of the process that decide whether a TLS context is valid. By default names of instances are not checked, and
/// the experimental features are off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsRules {
    /// Names of the certificate provider instances in the bootstrap; `None`: any name is valid.
    pub instances: Option<Arc<BTreeSet<Arc<str>>>>,
    /// Whether `system_root_certs` is read (gRFC A82).
    pub system_roots: bool,
    /// Whether `sni`, `auto_host_sni` and `auto_sni_san_validation` are read (gRFC A101).
    pub sni: bool,
}

impl UpstreamTls {
    /// Reads the transport socket of a cluster.
    ///
    /// # Errors
    /// The field, below the socket, and the rule that it breaks.
    pub fn from_socket(socket: &TransportSocket, rules: &TlsRules) -> Result<Self, Invalid> {
        let context: UpstreamTlsContext = typed(socket)?;
        Self::from_proto(&context, rules).within("typed_config")
    }

    fn from_proto(context: &UpstreamTlsContext, rules: &TlsRules) -> Result<Self, Invalid> {
        /// Envoy's limit for `sni`.
        const MAX_SNI_BYTES: usize = 255;
        let common = Common::from_proto(context.common_tls_context.as_ref(), rules)?;
        let validation = common.validation;
        // gRFC A29: a client must be able to verify the server (C-204).
        let Some(roots) = validation.roots else {
            let rule = if rules.system_roots {
                "must have a ca_certificate_provider_instance or system_root_certs"
            } else {
                "must have a ca_certificate_provider_instance"
            };
            return Err(Invalid::new(rule).at("common_tls_context.validation_context"));
        };
        let mut tls = Self {
            identity: common.identity,
            roots,
            san_matchers: validation.san_matchers,
            sni: None,
            auto_host_sni: false,
            auto_sni_san_validation: false,
        };
        // gRFC A29: ignored; gRFC A101, if it is on: read (C-205).
        if rules.sni {
            if context.sni.len() > MAX_SNI_BYTES {
                return Err(Invalid::new("must have at most 255 bytes").at("sni"));
            }
            tls.sni = Some(context.sni.as_str())
                .filter(|sni| !sni.is_empty())
                .map(Into::into);
            tls.auto_host_sni = context.auto_host_sni;
            tls.auto_sni_san_validation = context.auto_sni_san_validation;
        }
        Ok(tls)
    }

    /// Returns the server name for the handshake with an endpoint of this hostname; `None` for none (gRFC A101).
    #[must_use]
    pub fn server_name<'a>(&'a self, hostname: Option<&'a str>) -> Option<&'a str> {
        hostname
            .filter(|name| self.auto_host_sni && !name.is_empty())
            .or(self.sni.as_deref())
    }
}

impl DownstreamTls {
    /// Reads the transport socket of a filter chain.
    ///
    /// # Errors
    /// The field, below the socket, and the rule that it breaks.
    pub fn from_socket(socket: &TransportSocket, rules: &TlsRules) -> Result<Self, Invalid> {
        let context: DownstreamTlsContext = typed(socket)?;
        Self::from_proto(&context, rules).within("typed_config")
    }

    fn from_proto(context: &DownstreamTlsContext, rules: &TlsRules) -> Result<Self, Invalid> {
        let is_set = |value: Option<bool>| value.unwrap_or(false);
        let common = Common::from_proto(context.common_tls_context.as_ref(), rules)?;
        // gRFC A36: a server that ignored these fields would be less strict than it was configured to be.
        if is_set(context.require_sni.map(|sni| sni.value)) {
            return Err(Invalid::new("is not supported").at("require_sni"));
        }
        if context.ocsp_staple_policy != OcspStaplePolicy::LenientStapling as i32 {
            return Err(Invalid::new("must be LENIENT_STAPLING").at("ocsp_staple_policy"));
        }
        // gRFC A29: a server needs a certificate (C-204).
        let Some(identity) = common.identity else {
            return Err(Invalid::new("must be set")
                .at("common_tls_context.tls_certificate_provider_instance"));
        };
        // gRFC A29: server authorization is for clients; servers authorize by RBAC.
        if !common.validation.san_matchers.is_empty() {
            return Err(Invalid::new("must be empty for a server")
                .at("common_tls_context.validation_context.match_subject_alt_names"));
        }
        let require_client_certificate = is_set(
            context
                .require_client_certificate
                .map(|require| require.value),
        );
        if require_client_certificate && common.validation.roots.is_none() {
            let rule = "must have a ca_certificate_provider_instance, since client certificates are required";
            return Err(Invalid::new(rule).at("common_tls_context.validation_context"));
        }
        Ok(Self {
            identity,
            roots: common.validation.roots,
            require_client_certificate,
        })
    }
}

impl CertificateInstance {
    fn new(instance: &str, certificate: &str, rules: &TlsRules) -> Result<Self, Invalid> {
        // gRFC A29: the bootstrap must have the instance (C-204).
        match &rules.instances {
            Some(known) if !known.contains(instance) => Err(Invalid::new(format!(
                "{instance:?} is not in certificate_providers of the bootstrap: expected one of {}",
                list(known)
            ))
            .at("instance_name")),
            _ => Ok(Self {
                instance_name: instance.into(),
                certificate_name: certificate.into(),
            }),
        }
    }

    fn from_proto(proto: &InstanceProto, rules: &TlsRules) -> Result<Self, Invalid> {
        Self::new(&proto.instance_name, &proto.certificate_name, rules)
    }

    fn from_old(proto: &OldInstanceProto, rules: &TlsRules) -> Result<Self, Invalid> {
        Self::new(&proto.instance_name, &proto.certificate_name, rules)
    }
}

fn list(names: &BTreeSet<Arc<str>>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// The parts of a `CommonTlsContext` that gRPC reads.
struct Common {
    identity: Option<CertificateInstance>,
    validation: Validation,
}

/// The parts of a `CertificateValidationContext` that gRPC reads.
#[derive(Default)]
struct Validation {
    roots: Option<Roots>,
    san_matchers: Vec<SanMatcher>,
}

impl Common {
    fn from_proto(proto: Option<&CommonTlsContext>, rules: &TlsRules) -> Result<Self, Invalid> {
        let proto = proto.ok_or_else(|| Invalid::new("must be set"));
        proto
            .and_then(|proto| Self::read(proto, rules))
            .within("common_tls_context")
    }

    fn read(proto: &CommonTlsContext, rules: &TlsRules) -> Result<Self, Invalid> {
        // gRFC A29: fields that would make the connection safer than gRPC can make it are invalid (C-204).
        let unsupported = [
            ("tls_params", proto.tls_params.is_some()),
            ("custom_handshaker", proto.custom_handshaker.is_some()),
            (
                "custom_tls_certificate_selector",
                proto.custom_tls_certificate_selector.is_some(),
            ),
        ];
        not_set(&unsupported)?;
        Ok(Self {
            identity: identity(proto, rules)?,
            validation: validation(proto, rules)?,
        })
    }
}

/// Reads the certificate of this process. The fields of the first version of gRFC A29 are read, too: control planes may
/// still send them.
fn identity(
    proto: &CommonTlsContext,
    rules: &TlsRules,
) -> Result<Option<CertificateInstance>, Invalid> {
    if let Some(instance) = &proto.tls_certificate_provider_instance {
        let instance = CertificateInstance::from_proto(instance, rules);
        return instance
            .map(Some)
            .within("tls_certificate_provider_instance");
    }
    #[expect(deprecated, reason = "gRFC A29 began with this field")]
    if let Some(instance) = &proto.tls_certificate_certificate_provider_instance {
        let instance = CertificateInstance::from_old(instance, rules);
        return instance
            .map(Some)
            .within("tls_certificate_certificate_provider_instance");
    }
    let other = [
        ("tls_certificates", !proto.tls_certificates.is_empty()),
        (
            "tls_certificate_sds_secret_configs",
            !proto.tls_certificate_sds_secret_configs.is_empty(),
        ),
    ];
    for (field, is_set) in other {
        if is_set {
            let rule = "is not supported: expected tls_certificate_provider_instance";
            return Err(Invalid::new(rule).at(field));
        }
    }
    Ok(None)
}

fn validation(proto: &CommonTlsContext, rules: &TlsRules) -> Result<Validation, Invalid> {
    #[expect(deprecated, reason = "gRFC A29 began with these fields")]
    match &proto.validation_context_type {
        None => Ok(Validation::default()),
        Some(ValidationContextType::ValidationContext(context)) => {
            Validation::from_proto(context, rules).within("validation_context")
        }
        Some(ValidationContextType::CombinedValidationContext(combined)) => {
            let context = combined.default_validation_context.as_ref();
            let read = context.map(|context| Validation::from_proto(context, rules));
            let read = read
                .transpose()
                .within("combined_validation_context.default_validation_context")?;
            let mut validation = read.unwrap_or_default();
            let old = combined
                .validation_context_certificate_provider_instance
                .as_ref();
            if let Some(old) = old.filter(|_| validation.roots.is_none()) {
                let old = CertificateInstance::from_old(old, rules).within(
                    "combined_validation_context.validation_context_certificate_provider_instance",
                )?;
                validation.roots = Some(Roots::Instance(old));
            }
            Ok(validation)
        }
        Some(ValidationContextType::ValidationContextCertificateProviderInstance(old)) => {
            let old = CertificateInstance::from_old(old, rules)
                .within("validation_context_certificate_provider_instance")?;
            Ok(Validation {
                roots: Some(Roots::Instance(old)),
                san_matchers: Vec::new(),
            })
        }
        Some(ValidationContextType::ValidationContextSdsSecretConfig(_)) => Err(Invalid::new(
            "is not supported: expected validation_context",
        )
        .at("validation_context_sds_secret_config")),
        Some(ValidationContextType::ValidationContextCertificateProvider(_)) => Err(Invalid::new(
            "is not supported: expected validation_context",
        )
        .at("validation_context_certificate_provider")),
    }
}

impl Validation {
    fn from_proto(proto: &CertificateValidationContext, rules: &TlsRules) -> Result<Self, Invalid> {
        let requires_sct = proto.require_signed_certificate_timestamp;
        // gRFC A29: checks that gRPC does not make must not be silently left out (C-204).
        not_set(&[
            (
                "verify_certificate_spki",
                !proto.verify_certificate_spki.is_empty(),
            ),
            (
                "verify_certificate_hash",
                !proto.verify_certificate_hash.is_empty(),
            ),
            (
                "require_signed_certificate_timestamp",
                requires_sct.is_some_and(|requires| requires.value),
            ),
            ("crl", proto.crl.is_some()),
            (
                "custom_validator_config",
                proto.custom_validator_config.is_some(),
            ),
            ("max_verify_depth", proto.max_verify_depth.is_some()),
        ])?;
        let instance = proto.ca_certificate_provider_instance.as_ref();
        let instance = instance.map(|instance| CertificateInstance::from_proto(instance, rules));
        let instance = instance
            .transpose()
            .within("ca_certificate_provider_instance")?;
        // gRFC A82: an instance wins over the authorities of the system.
        let system = proto.system_root_certs.as_ref();
        let system = system.filter(|_| rules.system_roots).map(|_| Roots::System);
        Ok(Self {
            roots: instance.map(Roots::Instance).or(system),
            san_matchers: san_matchers(proto)?,
        })
    }
}

/// Reads the matchers of names. Envoy's rule: the typed ones win over the deprecated ones. gRFC A29 knows only the
/// deprecated ones, but a client that ignored the others would accept servers that it must not.
fn san_matchers(proto: &CertificateValidationContext) -> Result<Vec<SanMatcher>, Invalid> {
    const TYPED: &str = "match_typed_subject_alt_names";
    if !proto.match_typed_subject_alt_names.is_empty() {
        let typed = proto.match_typed_subject_alt_names.iter().enumerate();
        let typed = typed.map(|(index, matcher)| typed_matcher(matcher).within_index(TYPED, index));
        return typed.collect();
    }
    #[expect(deprecated, reason = "gRFC A29 uses this field")]
    let matchers = proto.match_subject_alt_names.iter().enumerate();
    let matchers = matchers.map(|(index, matcher)| {
        let matcher = string_matcher(matcher).within_index("match_subject_alt_names", index)?;
        Ok(SanMatcher { of: None, matcher })
    });
    matchers.collect()
}

fn typed_matcher(proto: &SubjectAltNameMatcher) -> Result<SanMatcher, Invalid> {
    let of = match SanType::try_from(proto.san_type) {
        Ok(SanType::Dns) => SanKind::Dns,
        Ok(SanType::Uri) => SanKind::Uri,
        Ok(SanType::Email) => SanKind::Email,
        Ok(SanType::IpAddress) => SanKind::Ip,
        Ok(SanType::Unspecified | SanType::OtherName) | Err(_) => {
            return Err(Invalid::new("must be EMAIL, DNS, URI or IP_ADDRESS").at("san_type"));
        }
    };
    let matcher = proto.matcher.as_ref();
    let matcher = matcher.ok_or_else(|| Invalid::new("must be set"));
    Ok(SanMatcher {
        of: Some(of),
        matcher: matcher.and_then(string_matcher).within("matcher")?,
    })
}

fn not_set(fields: &[(&str, bool)]) -> Result<(), Invalid> {
    match fields.iter().find(|(_, is_set)| *is_set) {
        Some((field, _)) => Err(Invalid::new("is not supported").at(field)),
        None => Ok(()),
    }
}

/// Decodes the configuration of a transport socket, which must be this message.
fn typed<M: Message + Name + Default>(socket: &TransportSocket) -> Result<M, Invalid> {
    let found = match &socket.config_type {
        // gRFC A29: any other socket, also one that wraps TLS, is not known (C-203, C-206).
        Some(ConfigType::TypedConfig(any)) if message(any) == M::full_name() => {
            let decoded = M::decode(&*any.value).map_err(Invalid::from);
            return decoded.within("typed_config");
        }
        Some(ConfigType::TypedConfig(any)) => message(any),
        None => "",
    };
    Err(Invalid::new(format!("must be {}, not {found:?}", M::full_name())).at("typed_config"))
}

impl fmt::Display for SanMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(of) = self.of {
            write!(f, "{of} ")?;
        }
        self.matcher.fmt(f)
    }
}

impl fmt::Display for SanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "DNS",
            Self::Uri => "URI",
            Self::Email => "email",
            Self::Ip => "IP",
        })
    }
}
