//! The server: answers with its host name, and misbehaves on request.

mod behaviour;
mod service;

use std::path::Path;

use clap::{ArgAction, Parser};
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::health_reporter;

use crate::flags::{self, Unsupported};
use crate::wire::{AddressType, Port, PortError};
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
    /// Security by xDS: not supported
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = flags::boolean)]
    pub secure_mode: bool,
}

/// Reason why the server does not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A flag that is not supported.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
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
    test: Port,
    /// `None` if health is served on the test service's port.
    maintenance: Option<Port>,
    service: TestService,
}

impl Server {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn bind(flags: Flags) -> Result<Self, StartError> {
        flags::SECURE_MODE.unless_off(flags.secure_mode)?;
        let test = Port::bind(flags.port, flags.address_type).await?;
        // Requested by number, so that two system-chosen ports differ.
        let maintenance = match flags.maintenance_port {
            Some(port) if port == 0 || port != flags.port => {
                Some(Port::bind(port, AddressType::Both).await?)
            }
            _ => None,
        };
        let host = match flags.host_name_override {
            Some(host) => host,
            None => hostname(Path::new(HOSTNAME)).ok_or(StartError::NoHostname)?,
        };
        let service = TestService {
            host: host.into(),
            id: flags.server_id.into(),
        };
        Ok(Self {
            test,
            maintenance,
            service,
        })
    }

    /// Port of the test service.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.test.number()
    }

    /// Port of health and its control.
    #[must_use]
    pub fn maintenance_port(&self) -> u16 {
        self.maintenance.as_ref().unwrap_or(&self.test).number()
    }

    /// Serves until dropped.
    pub async fn serve(self) {
        let mut test = Routes::default();
        self.service.add(&mut test);
        match self.maintenance {
            None => self.test.serve(maintenance(test).await).await,
            Some(port) => {
                let routes = maintenance(Routes::default()).await;
                tokio::join!(self.test.serve(test), port.serve(routes));
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
