//! Verdicts of our own engine, from the same configuration.

use std::borrow::Cow;
use std::net::SocketAddr;

use oxds_core::lb::Headers;
use oxds_core::rbac::{Call, PeerIdentity, Security};
use oxds_core::resource::{FilterConfig, FilterOverride, RouteConfig, Typed as _};
use oxds_types::codec::{Format, read_documents};
use oxds_types::descriptor;
use prost::Message as _;

use super::resources::FILTERS;
use crate::Fallible;

/// Our engine with the rules of all routes.
pub(super) struct Engine(RouteConfig);

/// Call to a server, as the server sees it.
pub(super) struct Received<'a> {
    pub(super) path: &'a str,
    pub(super) authority: &'a str,
    pub(super) headers: &'a [(&'static str, &'static str)],
    pub(super) destination: SocketAddr,
    pub(super) source: SocketAddr,
    /// With TLS; `Some(None)` for a client without a certificate.
    pub(super) tls: Option<Option<&'a PeerIdentity>>,
}

struct Pairs<'a>(&'a [(&'static str, &'static str)]);

impl Headers for Pairs<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        if name == "content-type" {
            return Some("application/grpc".into());
        }
        let values = self.0.iter().filter(|(found, _)| *found == name);
        let values: Vec<_> = values.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.join(",").into())
    }
}

impl Engine {
    /// Reads a route configuration in YAML.
    pub(super) fn of_routes(yaml: &str) -> Fallible<Self> {
        let documents = read_documents(descriptor::pool(), Format::Yaml, yaml.as_bytes(), None)?;
        let document = documents.first().ok_or("no document")?;
        let bytes = document.message.encode_to_vec();
        Ok(Self(RouteConfig::parse(&bytes)?))
    }

    /// Returns whether the filters of the first matching route allow the call.
    pub(super) fn allows(&self, received: &Received<'_>) -> Fallible<bool> {
        let headers = Pairs(received.headers);
        let call = Call {
            path: received.path,
            method: "POST",
            authority: received.authority,
            headers: &headers,
            destination: received.destination,
            source: received.source,
            security: received.tls.map_or(Security::Plaintext, Security::Tls),
        };
        let mut routes = self.0.virtual_hosts.iter().flat_map(|host| &host.routes);
        let route = routes.find(|route| route.matcher.matches(received.path, &headers, || 0));
        let route = route.ok_or_else(|| format!("no route for {}", received.path))?;
        for filter in FILTERS {
            match route.filter_overrides.get(filter) {
                Some(FilterOverride::Config(FilterConfig::Rbac(config))) => {
                    if !config.evaluate(&call).is_allowed {
                        return Ok(false);
                    }
                }
                other => return Err(format!("{filter} of {}: {other:?}", received.path).into()),
            }
        }
        Ok(true)
    }
}
