//! Addresses of endpoints, as texts.

use envoy_types::pb::envoy::config::core::v3::{Address, address, socket_address::PortSpecifier};
use envoy_types::pb::envoy::config::endpoint::v3::{LbEndpoint, lb_endpoint::HostIdentifier};

/// Returns the address of an endpoint, such as `127.0.0.1:80` or `[::1]:80`; a text that no address has if it is of
/// another kind.
pub(super) fn endpoint_address(proto: &LbEndpoint) -> String {
    match &proto.host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => address(endpoint.address.as_ref()),
        Some(HostIdentifier::EndpointName(name)) => format!("endpoint {name}"),
        None => "no address".to_owned(),
    }
}

fn address(proto: Option<&Address>) -> String {
    match proto.and_then(|proto| proto.address.as_ref()) {
        Some(address::Address::SocketAddress(socket)) => {
            let host = &socket.address;
            let port = match &socket.port_specifier {
                Some(PortSpecifier::PortValue(port)) => port.to_string(),
                Some(PortSpecifier::NamedPort(name)) => name.clone(),
                None => String::new(),
            };
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        }
        Some(address::Address::Pipe(pipe)) => format!("unix:{}", pipe.path),
        Some(address::Address::EnvoyInternalAddress(_)) => "internal address".to_owned(),
        None => "no address".to_owned(),
    }
}
