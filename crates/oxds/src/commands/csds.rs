//! `oxds csds`: the resources of a client, by its own report.

use oxds_types::codec::{Format, encode};
use oxds_types::discovery::Any;
use oxds_types::text;
use prost::Message as _;

use envoy_types::pb::envoy::admin::v3::ClientResourceStatus;
use envoy_types::pb::envoy::service::status::v3::client_config::GenericXdsConfig;
use envoy_types::pb::envoy::service::status::v3::{
    ClientConfig, ClientStatusResponse, ConfigStatus,
};
use oxds_client::Bootstrap;
use oxds_types::ResourceType;

use super::args::client_security::ClientSecurity;
use super::args::control_plane::{first_server, host_and_port};
use super::control_plane::{ControlPlane, rpc_failed};
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::Table;

const RESPONSE: &str = "type.googleapis.com/envoy.service.status.v3.ClientStatusResponse";

const EXAMPLES: &str = "\
Examples:
  oxds csds 127.0.0.1:50051                      # a gRPC application that serves CSDS
  oxds csds 127.0.0.1:50051 -o yaml              # with the contents of the resources
  oxds csds 127.0.0.1:18000                      # a control plane, for all its clients

STATUS from a client is ACKED, NACKED, REQUESTED or DOES_NOT_EXIST; from a control plane it is \
SYNCED, STALE, NOT_SENT or ERROR.

Exit codes: 0 no resource is NACKED or in ERROR; 1 at least one is, or no response.";

/// Print the resources of a client and their states, over CSDS
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address on which the client or control plane serves CSDS
    #[arg(value_name = "HOST:PORT", value_parser = host_and_port)]
    address: String,
    /// Format of the result on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: View,
    #[command(flatten)]
    security: ClientSecurity,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let clients = runtime()?.block_on(async {
        let bootstrap = args.security.apply(Bootstrap::builder(&args.address))?;
        let bootstrap = bootstrap.build().map_err(Failure::usage)?;
        let client = ControlPlane::connect(&first_server(&bootstrap)?).await?;
        let clients = client.client_status(args.output == View::Table).await;
        clients.map_err(|status| rpc_failed(&status))
    })?;
    let all = clients
        .iter()
        .flat_map(|client| &client.generic_xds_configs);
    let exit = if all.clone().any(is_error) {
        Exit::Negative
    } else {
        Exit::Success
    };
    let mut output = Output::new();
    match args.output {
        View::Table => output.write(&table(&clients))?,
        View::Yaml => output.write(&encoded(clients, Format::Yaml)?)?,
        View::Json => output.write(&text::json(encoded(clients, Format::Json)?))?,
    }
    Ok(exit)
}

fn is_error(config: &GenericXdsConfig) -> bool {
    config.config_status() == ConfigStatus::Error
        || config.client_status() == ClientResourceStatus::Nacked
}

fn table(clients: &[ClientConfig]) -> String {
    let head = [
        "NODE", "SCOPE", "TYPE", "NAME", "STATUS", "VERSION", "REASON",
    ];
    let mut table = Table::new(head);
    for client in clients {
        let node = client.node.as_ref().map(|node| node.id.clone());
        for config in &client.generic_xds_configs {
            let resource_type = ResourceType::from_type_url(&config.type_url);
            let status = match config.config_status() {
                ConfigStatus::Unknown => config.client_status().as_str_name(),
                status => status.as_str_name(),
            };
            let error = config.error_state.as_ref();
            table.row([
                node.clone().unwrap_or_default(),
                client.client_scope.clone(),
                resource_type.map_or_else(
                    || config.type_url.clone(),
                    |(resource_type, _)| resource_type.to_string(),
                ),
                config.name.clone(),
                status.to_owned(),
                config.version_info.clone(),
                error.map(|error| error.details.clone()).unwrap_or_default(),
            ]);
        }
    }
    table.text()
}

/// Encodes the whole response in the JSON mapping of its message.
fn encoded(config: Vec<ClientConfig>, format: Format) -> Result<String, Failure> {
    let response = ClientStatusResponse { config };
    let any = Any {
        type_url: RESPONSE.to_owned(),
        value: response.encode_to_vec().into(),
    };
    let text = encode(&[any], format).map_err(Failure::negative)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
