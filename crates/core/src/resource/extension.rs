//! Extensions of a program: parsers of configurations that only the program knows.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use envoy_types::pb::google::protobuf::{self, value::Kind};
use prost::Message;

use super::Invalid;
use super::convert::message;
use super::invalid::Within;
use super::tls::TlsRules;
use crate::lb::policy::{CustomPolicy, SharedPolicy};
use crate::rbac::AuditLogger;

/// Messages that carry a JSON object in the place of a message (gRFC A39, A52).
const TYPED_STRUCTS: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// Configuration of an extension: a message, or a JSON object with the name of one.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionConfig {
    /// Full name of the message, as `envoy.extensions.filters.http.fault.v3.HTTPFault`. For a `TypedStruct`, the name
    /// in it.
    pub type_name: Arc<str>,
    /// The configuration itself.
    pub value: ExtensionValue,
}

/// Form of an extension's configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionValue {
    /// An encoded message.
    Message(Arc<[u8]>),
    /// A JSON object, from a `TypedStruct`.
    Struct(Arc<protobuf::Struct>),
}

#[derive(Clone, PartialEq, Message)]
struct TypedStruct {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(message, optional, tag = "2")]
    value: Option<protobuf::Struct>,
}

impl ExtensionConfig {
    /// Reads the configuration in an `Any`.
    pub(crate) fn from_any(any: &protobuf::Any) -> Result<Self, Invalid> {
        if any.type_url.is_empty() {
            return Err(Invalid::new("must not be empty").at("type_url"));
        }
        let name = message(any);
        // gRFC A39: a `TypedStruct` has the type of its own `type_url` (C-176).
        if TYPED_STRUCTS.contains(&name) {
            let typed = TypedStruct::decode(&*any.value)
                .map_err(Invalid::from)
                .within("value")?;
            let name = typed.type_url.rsplit('/').next().unwrap_or_default();
            if name.is_empty() {
                return Err(Invalid::new("must not be empty").at("value.type_url"));
            }
            return Ok(Self {
                type_name: name.into(),
                value: ExtensionValue::Struct(Arc::new(typed.value.unwrap_or_default())),
            });
        }
        Ok(Self {
            type_name: name.into(),
            value: ExtensionValue::Message(any.value.as_slice().into()),
        })
    }

    /// Returns a text of the JSON object; `None` if it has no such text, or the configuration is a message.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<&str> {
        match self.field(field)? {
            Kind::StringValue(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a number of the JSON object; `None` if it has no such number, or the configuration is a message.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<f64> {
        match self.field(field)? {
            Kind::NumberValue(number) => Some(*number),
            _ => None,
        }
    }

    fn field(&self, name: &str) -> Option<&Kind> {
        match &self.value {
            ExtensionValue::Message(_) => None,
            ExtensionValue::Struct(object) => object.fields.get(name)?.kind.as_ref(),
        }
    }

    /// Makes the configuration that a `TypedStruct` with these texts has.
    #[must_use]
    pub fn of_texts<'a>(
        type_name: &str,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let field = |(name, text): (&str, &str)| {
            let kind = Some(Kind::StringValue(text.to_owned()));
            (name.to_owned(), protobuf::Value { kind })
        };
        let fields = texts.into_iter().map(field).collect();
        Self {
            type_name: type_name.into(),
            value: ExtensionValue::Struct(Arc::new(protobuf::Struct { fields })),
        }
    }

    /// Decodes the message.
    ///
    /// # Errors
    /// The configuration is a JSON object, or not such a message.
    pub fn decode<M: Message + Default>(&self) -> Result<M, Invalid> {
        match &self.value {
            ExtensionValue::Message(bytes) => Ok(M::decode(&**bytes)?),
            ExtensionValue::Struct(_) => Err(Invalid::new(format!(
                "must be the message {:?}, not a TypedStruct",
                self.type_name
            ))),
        }
    }
}

/// Value that a parser of an extension made.
pub type ParsedExtension = Arc<dyn Any + Send + Sync>;

type ParseFn = dyn Fn(&ExtensionConfig) -> Result<ParsedExtension, Invalid> + Send + Sync;

type ParsePolicyFn = dyn Fn(&ExtensionConfig) -> Result<SharedPolicy, Invalid> + Send + Sync;

type ParseLoggerFn =
    dyn Fn(&ExtensionConfig) -> Result<Arc<dyn AuditLogger>, Invalid> + Send + Sync;

/// Extensions that a program adds to those of oxds, and facts of the process that resources are checked with. Clones
/// are the same set, and equal to each other only.
#[derive(Clone, Default)]
pub struct Extensions {
    http_filters: Arc<BTreeMap<Box<str>, Arc<ParseFn>>>,
    policies: Arc<BTreeMap<Box<str>, Arc<ParsePolicyFn>>>,
    tls: TlsRules,
    audit_loggers: Arc<BTreeMap<Box<str>, Arc<ParseLoggerFn>>>,
}

impl Extensions {
    /// Adds an HTTP filter: the parser of its configurations, by the full name of their message (gRFC A39). A filter of
    /// that name that was added before is replaced. Filters of oxds cannot be replaced.
    #[must_use]
    pub fn with_http_filter(
        mut self,
        type_name: &str,
        parse: impl Fn(&ExtensionConfig) -> Result<ParsedExtension, Invalid> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.http_filters).insert(type_name.into(), Arc::new(parse));
        self
    }

    /// Adds a load-balancing policy: the parser of its configurations, by the full name of their message, or the name
    /// in a `TypedStruct` (gRFC A52). A policy of that name that was added before is replaced. Policies of oxds cannot
    /// be replaced.
    #[must_use]
    pub fn with_policy<P: CustomPolicy + 'static>(
        mut self,
        type_name: &str,
        parse: impl Fn(&ExtensionConfig) -> Result<P, Invalid> + Send + Sync + 'static,
    ) -> Self {
        let parse = move |config: &ExtensionConfig| parse(config).map(SharedPolicy::new);
        Arc::make_mut(&mut self.policies).insert(type_name.into(), Arc::new(parse));
        self
    }

    /// Sets the rules for TLS contexts: which certificate provider instances there are, for example. A client sets
    /// those of its bootstrap itself.
    #[must_use]
    pub fn with_tls_rules(mut self, rules: TlsRules) -> Self {
        self.tls = rules;
        self
    }

    /// Returns the rules for TLS contexts.
    #[must_use]
    pub fn tls_rules(&self) -> &TlsRules {
        &self.tls
    }

    /// Adds an audit logger: the parser of its configurations, by the full name of their message, or the name in a
    /// `TypedStruct` (gRFC A59). A logger of that name that was added before is replaced. The logger of oxds,
    /// `stdout_logger`, cannot be replaced.
    #[must_use]
    pub fn with_audit_logger<L: AuditLogger>(
        mut self,
        type_name: &str,
        parse: impl Fn(&ExtensionConfig) -> Result<L, Invalid> + Send + Sync + 'static,
    ) -> Self {
        let parse = move |config: &ExtensionConfig| {
            let logger: Arc<dyn AuditLogger> = Arc::new(parse(config)?);
            Ok(logger)
        };
        Arc::make_mut(&mut self.audit_loggers).insert(type_name.into(), Arc::new(parse));
        self
    }

    /// Parses the configuration of an added audit logger; `None` if the logger is unknown.
    pub(super) fn audit_logger(
        &self,
        config: &ExtensionConfig,
    ) -> Option<Result<Arc<dyn AuditLogger>, Invalid>> {
        let parse = self.audit_loggers.get(&*config.type_name)?;
        Some(parse(config))
    }

    /// Parses the configuration of an added policy; `None` if the policy is unknown.
    #[must_use]
    pub fn policy(&self, config: &ExtensionConfig) -> Option<Result<SharedPolicy, Invalid>> {
        let parse = self.policies.get(&*config.type_name)?;
        Some(parse(config))
    }

    /// Parses the configuration of an added HTTP filter; `None` if the filter is unknown.
    #[must_use]
    pub fn http_filter(
        &self,
        config: &ExtensionConfig,
    ) -> Option<Result<ParsedExtension, Invalid>> {
        let parse = self.http_filters.get(&*config.type_name)?;
        Some(parse(config))
    }
}

impl PartialEq for Extensions {
    fn eq(&self, other: &Self) -> bool {
        same_set(&self.http_filters, &other.http_filters)
            && same_set(&self.policies, &other.policies)
            && self.tls == other.tls
            && same_set(&self.audit_loggers, &other.audit_loggers)
    }
}

impl Eq for Extensions {}

fn same_set<T>(one: &Arc<BTreeMap<Box<str>, T>>, other: &Arc<BTreeMap<Box<str>, T>>) -> bool {
    (one.is_empty() && other.is_empty()) || Arc::ptr_eq(one, other)
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.http_filters.keys();
        let names = names
            .chain(self.policies.keys())
            .chain(self.audit_loggers.keys());
        f.debug_set().entries(names).finish()
    }
}
