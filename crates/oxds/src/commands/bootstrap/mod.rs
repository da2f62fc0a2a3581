//! `oxds bootstrap`: the file with which a client finds its control plane.
//!
//! The files are texts with holes rather than serialised values: people read them.

mod address;
mod envoy;
mod grpc;

use clap::ValueEnum;

use address::Address;

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds bootstrap grpc --server 127.0.0.1:18000 > bootstrap.json
  GRPC_XDS_BOOTSTRAP=bootstrap.json ./my-grpc-client            # any language

  oxds bootstrap envoy --server 127.0.0.1:18000 --node-id edge-1 --cluster edge --delta > envoy.yaml
  envoy -c envoy.yaml";

/// Print a bootstrap file, with which a client finds its control plane
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Who is to read the file
    #[arg(value_enum)]
    client: Client,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Client {
    /// A gRPC application in any language: JSON for GRPC_XDS_BOOTSTRAP
    Grpc,
    /// Envoy: YAML for `envoy -c`
    Envoy,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let node = |default| Node {
        id: args.node_id.as_deref().unwrap_or(default),
        cluster: &args.cluster,
    };
    let file = match args.client {
        Client::Grpc if args.delta => {
            return Err(Failure::usage(
                "--delta: gRPC clients ask for full states only (gRFC A27)",
            )
            .hint("leave --delta out; `oxds serve` answers both kinds on one port"));
        }
        Client::Grpc => grpc::file(&args.server, &node("grpc-client")),
        Client::Envoy => envoy::file(&args.server, &node("envoy"), args.delta),
    };
    Output::new().write(&file)?;
    Ok(Exit::Success)
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
