//! A control plane of your own: it reads the endpoints of clusters from stdin and serves them as typed messages.
//!
//! ```console
//! $ cargo run -p oxds-server --example endpoints
//! ADS and EDS on 127.0.0.1:35601
//! shop 127.0.0.1:50051 127.0.0.1:50052
//! ```

#![allow(clippy::print_stderr, reason = "an example prints for its user")]

use std::error::Error;
use std::net::SocketAddr;

use envoy_types::pb::envoy::config::core::v3::{self as core, address, socket_address};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use oxds_server::{Cache, ChangeSet, Resource, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cache = Cache::new();
    let server = Server::builder().cache(cache.clone()).bind().await?;
    eprintln!("ADS and EDS on {}", server.grpc_addr());
    // Each line is one change. It wakes only clients that subscribe to this cluster.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match assignment(&line) {
                Ok(resource) => drop(cache.apply(ChangeSet::default().put(resource))),
                Err(error) => eprintln!("{error}"),
            }
        }
    });
    let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    server.run(interrupted).await;
    Ok(())
}

/// Parses `CLUSTER ADDRESS…`. An invalid assignment is an error with the path of the field.
fn assignment(line: &str) -> Result<Resource, Box<dyn Error>> {
    let mut words = line.split_whitespace();
    let cluster = words.next().ok_or("expected CLUSTER ADDRESS…")?;
    let addresses = words.map(str::parse).collect::<Result<Vec<_>, _>>()?;
    let assignment = ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: addresses.into_iter().map(endpoint).collect(),
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    };
    Ok(Resource::of(&assignment)?)
}

fn endpoint(at: SocketAddr) -> LbEndpoint {
    let port = socket_address::PortSpecifier::PortValue(at.port().into());
    let socket = core::SocketAddress {
        address: at.ip().to_string(),
        port_specifier: Some(port),
        ..core::SocketAddress::default()
    };
    let endpoint = Endpoint {
        address: Some(core::Address {
            address: Some(address::Address::SocketAddress(socket)),
        }),
        ..Endpoint::default()
    };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        ..LbEndpoint::default()
    }
}
