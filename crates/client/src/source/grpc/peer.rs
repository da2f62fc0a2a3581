//! One server and the discovery service that is called there.

use oxds_core::ads::Protocol;
use oxds_types::ResourceType;
use oxds_types::resource_type::Service;

use crate::bootstrap::Server;

/// A discovery service on one server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GrpcPeer {
    pub(crate) server: Server,
    /// Resource type whose own service is called; `None` for ADS.
    pub(crate) of_type: Option<ResourceType>,
    pub(crate) protocol: Protocol,
}

impl GrpcPeer {
    /// Returns the service and its method; `None` if the resource type has no such method.
    pub(super) fn method(&self) -> Option<(&'static Service, &'static str)> {
        let version = self.server.version();
        let service = match &self.of_type {
            Some(resource_type) => resource_type.service(version)?,
            None => Service::aggregated(version),
        };
        let method = match self.protocol {
            Protocol::Sotw => service.stream,
            Protocol::Delta => service.delta,
        };
        Some((service, method?))
    }
}
