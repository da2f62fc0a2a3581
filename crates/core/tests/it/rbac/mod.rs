//! C-238: authorization of calls to a server (gRFC A41, A59).

mod audit;
mod chain;
mod cost;
mod headers;
mod invalid;
mod matchers;
mod principals;
mod property;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::lb::Headers;
use oxds_core::rbac::{Call, PeerIdentity, Security};
use oxds_core::resource::{
    Extensions, FilterConfig, FilterOverride, Invalid, RbacConfig, ResourceParsers, RouteConfig,
};
use oxds_types::ResourceType;

use crate::support::text::bytes;

/// Route configuration whose only virtual host has this `RBACPerRoute` for the filter `rbac`.
fn route_config(per_route: &str) -> String {
    format!(
        "name: 'r' virtual_hosts {{ name: 'h' domains: '*'
           typed_per_filter_config {{ key: 'rbac' value {{
             [type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute] {{ {per_route} }} }} }} }}"
    )
}

/// Reads an `RBACPerRoute`.
fn read(extensions: &Extensions, per_route: &str) -> Result<FilterOverride, Invalid> {
    let encoded = bytes(&ResourceType::ROUTE, &route_config(per_route));
    let parsed = ResourceParsers::grpc_with(extensions).parse(&ResourceType::ROUTE, &encoded)?;
    let config = parsed.get::<RouteConfig>().unwrap();
    Ok(config.virtual_hosts[0].filter_overrides["rbac"].clone())
}

/// Reads the configuration of a filter: the fields of `envoy.extensions.filters.http.rbac.v3.RBAC`.
fn filter(fields: &str) -> Arc<RbacConfig> {
    match read(&Extensions::default(), &format!("rbac {{ {fields} }}")) {
        Ok(FilterOverride::Config(FilterConfig::Rbac(config))) => config,
        other => panic!("{other:?} of {fields}"),
    }
}

/// Reads the configuration of a filter with these rules: the fields of `envoy.config.rbac.v3.RBAC`.
fn rules(fields: &str) -> Arc<RbacConfig> {
    filter(&format!("rules {{ {fields} }}"))
}

/// Fields of `RBAC` with a policy.
fn policy(name: &str, permissions: &str, principals: &str) -> String {
    format!("policies {{ key: '{name}' value {{ {permissions} {principals} }} }}")
}

const ANY_PERMISSION: &str = "permissions { any: true }";
const ANY_PRINCIPAL: &str = "principals { any: true }";

/// Headers of a call: a name may occur more than once.
struct Pairs(Vec<(&'static str, &'static str)>);

impl Headers for Pairs {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut values = self.0.iter().filter(|(n, _)| *n == name).map(|(_, v)| *v);
        let first = values.next()?;
        Some(values.fold(first.into(), |joined, next| {
            format!("{joined},{next}").into()
        }))
    }
}

/// Call of a test. Fields that a test does not set have usual values.
struct Case {
    path: &'static str,
    headers: Pairs,
    source: &'static str,
    destination: &'static str,
    identity: Option<PeerIdentity>,
    is_tls: bool,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            path: "/shop.Cart/Add",
            headers: Pairs(Vec::new()),
            source: "10.0.0.7:40000",
            destination: "10.0.0.1:8443",
            identity: None,
            is_tls: false,
        }
    }
}

impl Case {
    fn with_header(name: &'static str, value: &'static str) -> Self {
        let headers = Pairs(vec![(name, value)]);
        Self {
            headers,
            ..Self::default()
        }
    }

    fn of(identity: PeerIdentity) -> Self {
        Self {
            identity: Some(identity),
            is_tls: true,
            ..Self::default()
        }
    }

    fn call(&self) -> Call<'_> {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        Call {
            path: self.path,
            method: "POST",
            authority: "shop.example:443",
            headers: &self.headers,
            destination: address(self.destination),
            source: address(self.source),
            security: if self.is_tls {
                Security::Tls(self.identity.as_ref())
            } else {
                Security::Plaintext
            },
        }
    }

    fn is_allowed(&self, config: &RbacConfig) -> bool {
        config.evaluate(&self.call()).is_allowed
    }
}

/// Returns whether the permission (fields of `Permission`) matches.
fn permits(permission: &str, case: &Case) -> bool {
    let policy = policy(
        "p",
        &format!("permissions {{ {permission} }}"),
        ANY_PRINCIPAL,
    );
    case.is_allowed(&rules(&policy))
}

/// Returns whether the principal (fields of `Principal`) matches.
fn is_from(principal: &str, case: &Case) -> bool {
    let policy = policy(
        "p",
        ANY_PERMISSION,
        &format!("principals {{ {principal} }}"),
    );
    case.is_allowed(&rules(&policy))
}

fn identity(uri_sans: &[&str], dns_sans: &[&str], subject: &str) -> PeerIdentity {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    PeerIdentity {
        uri_sans: texts(uri_sans),
        dns_sans: texts(dns_sans),
        subject: subject.to_owned(),
    }
}
