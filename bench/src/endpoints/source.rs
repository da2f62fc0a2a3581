//! The control plane of a cluster of many endpoints. The line `change` moves the next endpoint to the other backend.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::net::Ipv4Addr;
use std::path::Path;

use envoy_types::pb::envoy::config::core::v3::address::Address as AnyAddress;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, Locality, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use envoy_types::pb::google::protobuf::UInt32Value;
use oxds_core::snapshot::Resource;
use oxds_server::{Cache, ChangeSet, DirStore, Server, dir};
use oxds_types::ResourceType;
use prost::Message as _;

use crate::control::resources::EDS_CLUSTER_NAME;
use crate::roles::Layout;
use crate::serve::{ANY_PORT, obey};

/// Endpoints in the first priority if the rest is for failover.
const FEW: usize = 4;

/// Ports of the backends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) first: u16,
    pub(crate) changed: u16,
}

/// Serves the folder and the assignment until the parent ends.
pub(crate) async fn serve(
    folder: &Path,
    count: usize,
    layout: Layout,
    ports: Ports,
) -> Result<(), String> {
    let store = DirStore::open(folder, dir::Options::default()).map_err(|e| e.to_string())?;
    let cache = Cache::new();
    let mut changes = 0;
    let put = move |cache: &Cache, changes: usize| {
        let bytes = assignment(count, layout, ports, changes).encode_to_vec();
        let resource = Resource::new(ResourceType::ENDPOINT, EDS_CLUSTER_NAME, &bytes);
        cache.apply(ChangeSet::default().put(resource));
    };
    put(&cache, changes);
    let server = Server::builder().grpc(ANY_PORT).store(store);
    let server = server.cache(cache.clone()).bind().await;
    let server = server.map_err(|error| error.to_string())?;
    println!("{}", server.grpc_addr());
    let obey_line = move |_: &str| {
        changes += 1;
        put(&cache, changes);
        None
    };
    server.run(obey(obey_line)).await;
    Ok(())
}

/// The assignment after this many changes: the first endpoints have moved to the other backend.
fn assignment(count: usize, layout: Layout, ports: Ports, changes: usize) -> ClusterLoadAssignment {
    let first = match layout {
        Layout::InUse => count,
        Layout::ForFailover => FEW.min(count),
    };
    let priorities = [0..first, first..count];
    let endpoint = |index: usize| {
        let port = if index < changes {
            ports.changed
        } else {
            ports.first
        };
        endpoint(index, port)
    };
    let localities = priorities.into_iter().enumerate();
    let localities = localities.filter(|(_, range)| !range.is_empty());
    ClusterLoadAssignment {
        cluster_name: EDS_CLUSTER_NAME.to_owned(),
        endpoints: localities
            .map(|(priority, range)| LocalityLbEndpoints {
                locality: Some(Locality {
                    region: "here".to_owned(),
                    ..Locality::default()
                }),
                load_balancing_weight: Some(UInt32Value { value: 1 }),
                priority: priority as u32,
                lb_endpoints: range.map(endpoint).collect(),
                ..LocalityLbEndpoints::default()
            })
            .collect(),
        ..ClusterLoadAssignment::default()
    }
}

/// An endpoint with a loopback address of its own.
fn endpoint(index: usize, port: u16) -> LbEndpoint {
    let address = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + 1 + index as u32);
    let socket = SocketAddress {
        address: address.to_string(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(Address {
                address: Some(AnyAddress::SocketAddress(socket)),
            }),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    }
}
