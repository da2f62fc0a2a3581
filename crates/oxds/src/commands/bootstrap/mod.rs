//! `oxds bootstrap`: the bootstrap file of a client, with its control plane and its node.
//!
//! The files are text templates and not serialised values, because people read and edit them.

mod address;
mod certificates;
pub(crate) mod check;
mod envoy;
mod grpc;
mod node;

use std::path::PathBuf;
use std::time::Duration;

use address::HostPort;
use certificates::CertificateFiles;
use node::NodeIdentity;

use super::duration;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds bootstrap grpc --server 127.0.0.1:18000 > bootstrap.json
  GRPC_XDS_BOOTSTRAP=bootstrap.json ./my-grpc-client            # any language
  oxds bootstrap check bootstrap.json

  oxds bootstrap grpc --server 127.0.0.1:18000 --certs /run/certs > bootstrap.json   # mTLS between services

  oxds bootstrap envoy --server 127.0.0.1:18000 --node-id edge-1 --cluster edge --delta > envoy.yaml
  envoy -c envoy.yaml";

/// Print or check a bootstrap file, which names a client's control plane and node
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the JSON for GRPC_XDS_BOOTSTRAP of a gRPC application in any language
    Grpc(ClientArgs),
    /// Print the YAML for `envoy -c`
    Envoy(ClientArgs),
    Check(check::Args),
}

/// Options for the server and node of the file.
#[derive(Debug, clap::Args)]
struct ClientArgs {
    /// Control plane: the address that `oxds serve` printed after `grpc`
    #[arg(long, value_name = "HOST:PORT")]
    server: HostPort,
    /// Node id, which identifies the client to the control plane
    /// [default: `grpc-client` or `envoy`]
    #[arg(long, value_name = "ID", value_parser = not_empty)]
    node_id: Option<String>,
    /// Cluster of the node: the group of clients that it belongs to
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = not_empty)]
    cluster: String,
    /// Use delta instead of SotW (Envoy only: gRPC clients do not support delta)
    #[arg(long)]
    delta: bool,
    /// Folder with the certificate, key and roots of the application, for TLS between services
    ///
    /// gRPC only. They become the certificate provider `default`, which reads the files again when they change. Names
    /// of the files: cert.pem, key.pem and ca.pem; or tls.crt, tls.key and ca.crt (Kubernetes, cert-manager); svid.pem,
    /// svid_key.pem and svid_bundle.pem (spiffe-helper); certificates.pem, private_key.pem and ca_certificates.pem
    /// (Google Cloud).
    #[arg(long, value_name = "DIR")]
    certs: Option<PathBuf>,
    /// Time after which the application reads the files of --certs again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, requires = "certs")]
    refresh_interval: Duration,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let file = match &args.command {
        Command::Check(args) => return check::run(args),
        Command::Grpc(client) if client.delta => {
            return Err(
                Failure::usage("--delta: gRPC clients support SotW only (gRFC A27)")
                    .hint("omit --delta; `oxds serve` supports SotW and delta on one port"),
            );
        }
        Command::Grpc(client) => {
            let certificates = client.certificates()?;
            let node = client.node("grpc-client");
            grpc::file(&client.server, &node, certificates.as_ref())
        }
        Command::Envoy(client) if client.certs.is_some() => {
            return Err(Failure::usage(
                "--certs: Envoy has no certificate providers of gRPC (gRFC A29)",
            )
            .hint("use secrets of the control plane (SDS), or files in its TLS contexts"));
        }
        Command::Envoy(client) => envoy::file(&client.server, &client.node("envoy"), client.delta),
    };
    Output::new().write(&file)?;
    Ok(Exit::Success)
}

impl ClientArgs {
    /// Returns the files of `--certs`.
    fn certificates(&self) -> Result<Option<CertificateFiles>, Failure> {
        let find = |dir| CertificateFiles::find(dir, self.refresh_interval);
        let found = self.certs.as_deref().map(find).transpose();
        found.map_err(|error| Failure::usage(format_args!("--certs: {error}")))
    }

    fn node<'a>(&'a self, default: &'a str) -> NodeIdentity<'a> {
        NodeIdentity {
            id: self.node_id.as_deref().unwrap_or(default),
            cluster: &self.cluster,
        }
    }
}

/// Rejects an empty text: Envoy does not start with an empty node id or cluster.
fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("expected at least one character");
    }
    Ok(text.to_owned())
}
