//! Configuration of the RBAC filter (gRFC A41).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::{
    Permission as PermissionProto, Policy as PolicyProto, Principal as PrincipalProto,
    Rbac as RulesProto, permission::Rule as PermissionRule, principal::Authenticated,
    principal::Identifier, rbac::Action as ActionProto,
};
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher as HeaderProto;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{
    Rbac as FilterProto, RbacPerRoute,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{
    MetadataMatcher, PathMatcher as PathProto, path_matcher::Rule as PathRule,
};
use envoy_types::pb::envoy::r#type::v3::Int32Range;

use super::audit::{Audit, AuditTarget};
use crate::rbac::{Action, Call, Policy, Rbac, Rule, Verdict};
use crate::resource::Invalid;
use crate::resource::cidr::Cidr;
use crate::resource::extension::{ExtensionConfig, Extensions};
use crate::resource::header_matcher::header_matcher;
use crate::resource::invalid::Within;
use crate::resource::string_matcher::string_matcher;

pub(super) const RBAC: &str = "envoy.extensions.filters.http.rbac.v3.RBAC";
pub(super) const RBAC_PER_ROUTE: &str = "envoy.extensions.filters.http.rbac.v3.RBACPerRoute";

/// Configuration of an RBAC filter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RbacConfig {
    /// Rules; without them, the filter allows every call.
    pub rules: Option<Rbac>,
    audit: Audit,
}

impl RbacConfig {
    /// Decides whether a call may run.
    #[must_use]
    pub fn evaluate(&self, call: &Call<'_>) -> Verdict<'_> {
        let rules = self.rules.as_ref();
        rules.map_or(Verdict::ALLOWED, |rules| rules.evaluate(call))
    }

    /// Returns the loggers that a verdict of this filter needs, in the order of the configuration (gRFC A59).
    #[must_use]
    pub fn loggers(&self, verdict: &Verdict<'_>) -> &[AuditTarget] {
        if self.audit.condition.applies(verdict) {
            &self.audit.targets
        } else {
            &[]
        }
    }
}

/// Reads the configuration of a listener's filter.
pub(super) fn rbac(
    config: &ExtensionConfig,
    extensions: &Extensions,
) -> Result<Arc<RbacConfig>, Invalid> {
    of_proto(&config.decode()?, extensions)
}

/// Reads the configuration of a virtual host, a route or a weighted cluster; `None` if the filter does not run there.
pub(super) fn rbac_override(
    config: &ExtensionConfig,
    extensions: &Extensions,
) -> Result<Option<Arc<RbacConfig>>, Invalid> {
    let proto: RbacPerRoute = config.decode()?;
    let config = proto.rbac.as_ref();
    let config = config.map(|proto| of_proto(proto, extensions)).transpose();
    config.within("rbac")
}

/// gRFC A41 ignores the shadow rules, and the names of statistics.
fn of_proto(proto: &FilterProto, extensions: &Extensions) -> Result<Arc<RbacConfig>, Invalid> {
    let Some(rules) = &proto.rules else {
        // Our own rule: gRPC ignores `matcher`, so this filter would allow what Envoy denies.
        if proto.matcher.is_some() {
            return Err(Invalid::new("is not supported without rules").at("matcher"));
        }
        return Ok(Arc::default());
    };
    let config = of_rules(rules, extensions).within("rules")?;
    Ok(Arc::new(config))
}

fn of_rules(proto: &RulesProto, extensions: &Extensions) -> Result<RbacConfig, Invalid> {
    let action = match ActionProto::try_from(proto.action) {
        Ok(ActionProto::Allow) => Action::Allow,
        Ok(ActionProto::Deny) => Action::Deny,
        // gRFC A41: such rules are ignored, as if there were none.
        Ok(ActionProto::Log) => return Ok(RbacConfig::default()),
        Err(_) => return Err(Invalid::new("is unknown").at("action")),
    };
    let policies = policies(&proto.policies)?;
    let audit = proto.audit_logging_options.as_ref();
    let audit = audit.map(|options| Audit::from_proto(options, extensions));
    Ok(RbacConfig {
        rules: Some(Rbac::new(action, policies)),
        audit: audit
            .transpose()
            .within("audit_logging_options")?
            .unwrap_or_default(),
    })
}

fn policies(protos: &HashMap<String, PolicyProto>) -> Result<Vec<Policy>, Invalid> {
    // In order, so that the error does not depend on the order of a hash map.
    let protos: BTreeMap<_, _> = protos.iter().collect();
    let read = |(name, proto): (&String, &PolicyProto)| {
        policy(name, proto).within(&format!("policies[{name:?}]"))
    };
    protos.into_iter().map(read).collect()
}

fn policy(name: &str, proto: &PolicyProto) -> Result<Policy, Invalid> {
    // gRFC A41: a condition that cannot be evaluated must not be ignored.
    for (field, is_set) in [
        ("condition", proto.condition.is_some()),
        ("checked_condition", proto.checked_condition.is_some()),
    ] {
        if is_set {
            return Err(Invalid::new("is not supported").at(field));
        }
    }
    Ok(Policy {
        name: name.into(),
        permissions: each("permissions", &proto.permissions, permission)?,
        principals: each("principals", &proto.principals, principal)?,
    })
}

/// Reads the conditions of a repeated field.
fn each<T>(
    field: &str,
    protos: &[T],
    read: fn(&T) -> Result<Rule, Invalid>,
) -> Result<Box<[Rule]>, Invalid> {
    let protos = protos.iter().enumerate();
    protos
        .map(|(index, proto)| read(proto).within_index(field, index))
        .collect()
}

#[expect(
    deprecated,
    reason = "control planes still send them, and gRFC A41 supports them"
)]
fn permission(proto: &PermissionProto) -> Result<Rule, Invalid> {
    match &proto.rule {
        Some(PermissionRule::AndRules(set)) => each("rules", &set.rules, permission)
            .within("and_rules")
            .map(Rule::All),
        Some(PermissionRule::OrRules(set)) => each("rules", &set.rules, permission)
            .within("or_rules")
            .map(Rule::Any),
        Some(PermissionRule::NotRule(rule)) => permission(rule).within("not_rule").map(not),
        // As in gRPC, whatever the value.
        Some(PermissionRule::Any(_)) => Ok(Rule::Constant(true)),
        Some(PermissionRule::Header(matcher)) => header(matcher).within("header"),
        Some(PermissionRule::UrlPath(matcher)) => path(matcher).within("url_path"),
        Some(PermissionRule::DestinationIp(range)) => Cidr::from_proto(range)
            .within("destination_ip")
            .map(Rule::Destination),
        Some(PermissionRule::DestinationPort(port)) => {
            let port = i64::from(*port);
            Ok(Rule::DestinationPort(port..port + 1))
        }
        Some(PermissionRule::DestinationPortRange(range)) => {
            port_range(range).within("destination_port_range")
        }
        Some(PermissionRule::Metadata(matcher)) => Ok(metadata(matcher)),
        // gRFC A41: the name is the empty text, whatever the client has sent.
        Some(PermissionRule::RequestedServerName(matcher)) => string_matcher(matcher)
            .within("requested_server_name")
            .map(|matcher| Rule::Constant(matcher.matches(""))),
        Some(PermissionRule::Matcher(_)) => unsupported("matcher"),
        Some(PermissionRule::UriTemplate(_)) => unsupported("uri_template"),
        Some(PermissionRule::SourcedMetadata(_)) => unsupported("sourced_metadata"),
        None => Err(Invalid::new("must be set").at("rule")),
    }
}

#[expect(
    deprecated,
    reason = "control planes still send them, and gRFC A41 supports them"
)]
fn principal(proto: &PrincipalProto) -> Result<Rule, Invalid> {
    match &proto.identifier {
        Some(Identifier::AndIds(set)) => each("ids", &set.ids, principal)
            .within("and_ids")
            .map(Rule::All),
        Some(Identifier::OrIds(set)) => each("ids", &set.ids, principal)
            .within("or_ids")
            .map(Rule::Any),
        Some(Identifier::NotId(id)) => principal(id).within("not_id").map(not),
        // As in gRPC, whatever the value.
        Some(Identifier::Any(_)) => Ok(Rule::Constant(true)),
        Some(Identifier::Authenticated(name)) => authenticated(name).within("authenticated"),
        // gRFC A41: three names of the peer's address, since nothing in gRPC replaces it.
        Some(Identifier::SourceIp(range)) => Cidr::from_proto(range)
            .within("source_ip")
            .map(Rule::Source),
        Some(Identifier::DirectRemoteIp(range)) => Cidr::from_proto(range)
            .within("direct_remote_ip")
            .map(Rule::Source),
        Some(Identifier::RemoteIp(range)) => Cidr::from_proto(range)
            .within("remote_ip")
            .map(Rule::Source),
        Some(Identifier::Header(matcher)) => header(matcher).within("header"),
        Some(Identifier::UrlPath(matcher)) => path(matcher).within("url_path"),
        Some(Identifier::Metadata(matcher)) => Ok(metadata(matcher)),
        Some(Identifier::FilterState(_)) => unsupported("filter_state"),
        Some(Identifier::SourcedMetadata(_)) => unsupported("sourced_metadata"),
        Some(Identifier::Custom(_)) => unsupported("custom"),
        None => Err(Invalid::new("must be set").at("identifier")),
    }
}

fn unsupported(field: &str) -> Result<Rule, Invalid> {
    Err(Invalid::new("is not supported").at(field))
}

fn not(rule: Rule) -> Rule {
    Rule::Not(Box::new(rule))
}

/// Returns the value of a metadata condition. gRFC A41: metadata of filters is empty, so nothing matches but an
/// inverted matcher.
fn metadata(proto: &MetadataMatcher) -> Rule {
    Rule::Constant(proto.invert)
}

fn header(proto: &HeaderProto) -> Result<Rule, Invalid> {
    let matcher = header_matcher(proto)?;
    // gRFC A41: these headers are not the same in all transports of gRPC.
    if &*matcher.name == ":scheme" || matcher.name.starts_with("grpc-") {
        let rule = format!("{:?} must not be :scheme or begin with grpc-", proto.name);
        return Err(Invalid::new(rule).at("name"));
    }
    Ok(Rule::Header(matcher))
}

fn path(proto: &PathProto) -> Result<Rule, Invalid> {
    match &proto.rule {
        Some(PathRule::Path(matcher)) => string_matcher(matcher).within("path").map(Rule::Path),
        None => Err(Invalid::new("must be set").at("path")),
    }
}

/// Reads a range of ports, which grpc-java and Envoy support. Its bounds are those of the API.
fn port_range(proto: &Int32Range) -> Result<Rule, Invalid> {
    let (start, end) = (i64::from(proto.start), i64::from(proto.end));
    if start < 0 || end > 65_536 || start >= end {
        let rule =
            format!("must have a start from 0 and an end to 65536 above it, not {start} and {end}");
        return Err(Invalid::new(rule));
    }
    Ok(Rule::DestinationPort(start..end))
}

fn authenticated(proto: &Authenticated) -> Result<Rule, Invalid> {
    let name = proto.principal_name.as_ref();
    let name = name.map(string_matcher).transpose();
    name.within("principal_name").map(Rule::Authenticated)
}
