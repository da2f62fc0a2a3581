//! A route configuration that decodes only the routes that are read: the message of a route has a few kilobytes, and a
//! graph shows few of ten thousand.

use envoy_types::pb::envoy::config::route::v3::Route;
use oxds_types::Decode as _;
use prost::bytes::Bytes;

/// The part of `envoy.config.route.v3.RouteConfiguration` that a graph shows.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RouteTable {
    #[prost(message, repeated, tag = "2")]
    pub(super) hosts: Vec<HostRoutes>,
}

/// The part of `envoy.config.route.v3.VirtualHost` that a graph shows.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HostRoutes {
    #[prost(string, repeated, tag = "2")]
    pub(super) domains: Vec<String>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    routes: Vec<Bytes>,
}

impl HostRoutes {
    /// Returns the number of routes.
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Decodes the first routes, at most this number. A route that cannot be decoded is left out.
    pub(super) fn first(&self, number: usize) -> impl Iterator<Item = (usize, Route)> {
        let routes = self.routes.iter().take(number).enumerate();
        routes.filter_map(|(at, route)| Some((at, Route::from_bytes(route).ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
    use prost::Message as _;

    use super::*;

    #[test]
    fn page_graph_reads_routes_as_they_were_written() {
        let route = |name: &str| Route {
            name: name.to_owned(),
            ..Route::default()
        };
        let host = VirtualHost {
            name: "host".to_owned(),
            domains: vec!["a".to_owned(), "b".to_owned()],
            routes: vec![route("first"), route("second"), route("third")],
            ..VirtualHost::default()
        };
        let config = RouteConfiguration {
            name: "routes".to_owned(),
            virtual_hosts: vec![VirtualHost::default(), host],
            ..RouteConfiguration::default()
        };
        let table = RouteTable::decode(&*config.encode_to_vec()).unwrap();
        assert_eq!((table.hosts.len(), table.hosts[0].len()), (2, 0));
        let host = &table.hosts[1];
        assert_eq!((host.domains.join(" "), host.len()), ("a b".to_owned(), 3));
        let first: Vec<_> = host.first(2).collect();
        assert_eq!(first, [(0, route("first")), (1, route("second"))]);
    }
}
