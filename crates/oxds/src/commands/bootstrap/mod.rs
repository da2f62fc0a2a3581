//! `oxds bootstrap`: the file with which a client finds its control plane.
//!
//! The files are texts with holes rather than serialised values: people read them.

mod address;
pub(crate) mod check;
mod envoy;
mod grpc;

use address::Address;

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds bootstrap grpc --server 127.0.0.1:18000 > bootstrap.json
  GRPC_XDS_BOOTSTRAP=bootstrap.json ./my-grpc-client            # any language
  oxds bootstrap check bootstrap.json

  oxds bootstrap envoy --server 127.0.0.1:18000 --node-id edge-1 --cluster edge --delta > envoy.yaml
  envoy -c envoy.yaml";

/// Print or check a bootstrap file, with which a client finds its control plane
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the JSON for GRPC_XDS_BOOTSTRAP of a gRPC application in any language
    Grpc(Client),
    /// Print the YAML for `envoy -c`
    Envoy(Client),
    Check(check::Args),
}

/// The client that is to read the file.
#[derive(Debug, clap::Args)]
struct Client {
    /// The control plane: what `oxds serve` printed after `grpc`
    #[arg(long, value_name = "HOST:PORT")]
    server: Address,
    /// The client's name, by which the control plane tells it from others
    /// [default: `grpc-client` or `envoy`]
    #[arg(long, value_name = "ID", value_parser = not_empty)]
    node_id: Option<String>,
    /// The group of clients that it belongs to
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = not_empty)]
    cluster: String,
    /// Ask for differences instead of full states (Envoy only: gRPC does not speak it)
    #[arg(long)]
    delta: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let file = match &args.command {
        Command::Check(args) => return check::run(args),
        Command::Grpc(client) if client.delta => {
            return Err(Failure::usage(
                "--delta: gRPC clients ask for full states only (gRFC A27)",
            )
            .hint("leave --delta out; `oxds serve` answers both kinds on one port"));
        }
        Command::Grpc(client) => grpc::file(&client.server, &client.node("grpc-client")),
        Command::Envoy(client) => envoy::file(&client.server, &client.node("envoy"), client.delta),
    };
    Output::new().write(&file)?;
    Ok(Exit::Success)
}

impl Client {
    fn node<'a>(&'a self, default: &'a str) -> Node<'a> {
        Node {
            id: self.node_id.as_deref().unwrap_or(default),
            cluster: &self.cluster,
        }
    }
}

/// Who the client says it is.
#[derive(Clone, Copy, Debug)]
struct Node<'a> {
    id: &'a str,
    cluster: &'a str,
}

/// Envoy refuses a node without id or cluster.
fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("must not be empty");
    }
    Ok(text.to_owned())
}

/// A JSON string, and so a YAML scalar that is a string whatever it holds.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
