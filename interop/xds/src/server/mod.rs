//! The server: answers with its host name, and misbehaves on request.

mod behaviour;
mod service;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use clap::{ArgAction, Parser};
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::health_reporter;

use oxds_grpc_server::{BoundServer, BuildError, ServeError, XdsServer};

use crate::flags;
use crate::wire::{AddressType, Port, PortError};
pub(crate) use behaviour::BEHAVIOUR;
use service::TestService;

/// File in which Linux has the host name.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "xds-interop-server",
    version,
    about = "The server of gRPC's xDS interop suite",
    rename_all = "snake_case"
)]
pub struct Flags {
    /// Port of the test service; 0 lets the system choose
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Port of health and its control; by default, that of the test service
    #[arg(long)]
    pub maintenance_port: Option<u16>,
    /// Address family of the test service's port
    #[arg(long, value_enum, ignore_case = true, default_value = "IPV4_IPV6")]
    pub address_type: AddressType,
    /// Server id in responses
    #[arg(long, default_value = "oxds_server")]
    pub server_id: String,
    /// Host name in responses; by default, that of the machine
    #[arg(long)]
    pub host_name_override: Option<String>,
    /// Serves the test service as the control plane configures it; then --maintenance_port must be another port
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = flags::boolean)]
    pub secure_mode: bool,
}

/// Reason why the server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server of secure mode cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The port of secure mode is in use.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Health would be served only with a listener.
    #[error("--secure_mode needs a --maintenance_port of its own")]
    Maintenance,
    /// A port is in use.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The machine has no host name.
    #[error("{HOSTNAME} cannot be read: give --host_name_override")]
    NoHostname,
}

/// A server with open ports.
#[derive(Debug)]
pub struct Server {
    test: TestPort,
    /// `None` if health is served on the test service's port.
    maintenance: Option<Port>,
}

/// The test service with its port.
#[derive(Debug)]
enum TestPort {
    /// Served without a control plane.
    Plain(Port, TestService),
    /// Served as the control plane configures it.
    Xds(Box<BoundServer>),
}

impl TestPort {
    fn xds(flags: &Flags, service: &TestService) -> Result<Self, StartError> {
        let mut routes = Routes::default();
        service.add(&mut routes);
        let server = XdsServer::builder().routes(routes).build()?;
        let v4 = (Ipv4Addr::UNSPECIFIED, flags.port).into();
        let v6 = (Ipv6Addr::UNSPECIFIED, flags.port).into();
        let bound = match flags.address_type {
            AddressType::V4 => server.bind(v4),
            AddressType::V6 => server.bind(v6),
            // The unspecified IPv6 address accepts IPv4, too; a machine without IPv6 lacks it.
            AddressType::Both => server.bind(v6).or_else(|_| server.bind(v4)),
        };
        Ok(Self::Xds(Box::new(bound?)))
    }

    fn number(&self) -> u16 {
        match self {
            Self::Plain(port, _) => port.number(),
            Self::Xds(bound) => bound.local_addr().port(),
        }
    }
}

impl Server {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn bind(flags: Flags) -> Result<Self, StartError> {
        // Requested by number, so that two system-chosen ports differ.
        let maintenance = match flags.maintenance_port {
            Some(port) if port == 0 || port != flags.port => {
                Some(Port::bind(port, AddressType::Both).await?)
            }
            _ if flags.secure_mode => return Err(StartError::Maintenance),
            _ => None,
        };
        let host = match flags.host_name_override.clone() {
            Some(host) => host,
            None => hostname(Path::new(HOSTNAME)).ok_or(StartError::NoHostname)?,
        };
        let service = TestService {
            host: host.into(),
            id: flags.server_id.as_str().into(),
        };
        let test = if flags.secure_mode {
            TestPort::xds(&flags, &service)?
        } else {
            let port = Port::bind(flags.port, flags.address_type).await?;
            TestPort::Plain(port, service)
        };
        Ok(Self { test, maintenance })
    }

    /// Port of the test service.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.test.number()
    }

    /// Port of health and its control.
    #[must_use]
    pub fn maintenance_port(&self) -> u16 {
        let maintenance = self.maintenance.as_ref().map(Port::number);
        maintenance.unwrap_or_else(|| self.test.number())
    }

    /// Serves until dropped.
    pub async fn serve(self) {
        let (test, service) = match self.test {
            TestPort::Plain(test, service) => (test, service),
            TestPort::Xds(bound) => {
                let health = async {
                    if let Some(port) = self.maintenance {
                        port.serve(maintenance(Routes::default()).await).await;
                    }
                };
                tokio::join!(bound.serve(), health);
                return;
            }
        };
        let mut routes = Routes::default();
        service.add(&mut routes);
        match self.maintenance {
            None => test.serve(maintenance(routes).await).await,
            Some(port) => {
                let health = maintenance(Routes::default()).await;
                tokio::join!(test.serve(routes), port.serve(health));
            }
        }
    }
}

/// Adds the health service and its control.
async fn maintenance(routes: Routes) -> Routes {
    let (reporter, health) = health_reporter();
    // "" means the server as a whole (gRPC health checking protocol).
    reporter
        .set_service_status("", ServingStatus::Serving)
        .await;
    let mut routes = routes.add_service(health);
    service::add_health_control(&mut routes, &reporter);
    routes
}

fn hostname(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
