//! On-demand virtual hosts (VHDS): which virtual host answers a request for `<routes>/<host>`.
//!
//! ```text
//!  client asks for   routes/www.shop.example ──▶ HostIndex ──▶ routes/shop   domains: [www.shop.example, *.shop.example]
//!                                                                   │
//!  response          name routes/shop, alias routes/www.shop.example ◀──── HostAliases
//! ```
//!
//! Envoy asks for the name of the route configuration, a slash, and the `:authority` of a request. It goes on with the
//! request once a response has that name, as the name or as an alias of a resource. The virtual hosts of a route
//! configuration are those whose names begin with its name and a slash; the last slash counts (Envoy's VHDS page,
//! "Virtual host resource naming convention").

mod aliases;
mod index;

use prost::Message;

pub(crate) use aliases::HostAliases;
pub(crate) use index::HostIndex;

/// The part of `envoy.config.route.v3.RouteConfiguration` that decides about ports.
#[derive(Clone, PartialEq, Message)]
struct PortMatching {
    #[prost(bool, tag = "14")]
    ignore_port_in_host_matching: bool,
}

/// Returns whether an encoded route configuration matches hosts without their port.
pub(crate) fn ignores_port(route_config: &[u8]) -> bool {
    PortMatching::decode(route_config).is_ok_and(|config| config.ignore_port_in_host_matching)
}

/// Returns the host without its port, if it has one. An IPv6 address is in brackets.
pub(crate) fn without_port(host: &str) -> Option<&str> {
    let (name, port) = host.rsplit_once(':')?;
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some(name)
}

/// Returns the name of the route configuration, and the host, of the name of a virtual host.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('/')
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;

    use super::*;

    #[test]
    fn route_configuration_decides_about_ports() {
        for ignores in [false, true] {
            let config = RouteConfiguration {
                name: "routes".into(),
                ignore_port_in_host_matching: ignores,
                ..RouteConfiguration::default()
            };
            assert_eq!(ignores_port(&config.encode_to_vec()), ignores);
        }
        assert!(!ignores_port(b"nonsense"));
        assert_eq!(without_port("shop.example:80"), Some("shop.example"));
        assert_eq!(without_port("[::1]:80"), Some("[::1]"));
        for host in ["shop.example", "[::1]", "shop:", "a:b"] {
            assert_eq!(without_port(host), None, "{host}");
        }
    }
}
