//! `oxds bootstrap check`: whether a gRPC client could begin with a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use oxds_client::{Bootstrap, BootstrapError};

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Check a gRPC bootstrap file, and say what it means
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The JSON file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let bootstrap = read(&args.file)?;
    Output::new().write(&summary(&bootstrap))?;
    Ok(Exit::Success)
}

/// Reads a bootstrap file as gRPC clients do. The failure names file and place.
pub(crate) fn read(file: &Path) -> Result<Bootstrap, Failure> {
    let name = file.display();
    let json = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format_args!("{name}: {error}")))?;
    Bootstrap::from_json(&json).map_err(|error| match error {
        BootstrapError::Syntax {
            line,
            column,
            reason,
            ..
        } => Failure::usage(format_args!("{name}:{line}:{column}: {reason}")),
        BootstrapError::Field { path, reason, .. } => {
            Failure::usage(format_args!("{name}: {path}: {reason}"))
        }
        other => Failure::usage(format_args!("{name}: {other}")),
    })
}

/// A line for the node, and one for each server.
fn summary(bootstrap: &Bootstrap) -> String {
    let node = bootstrap.node();
    let mut text = format!("node {:?} of cluster {:?}\n", node.id, node.cluster);
    let mut servers = |of: &str, servers: &[oxds_client::bootstrap::Server]| {
        for server in servers {
            let (uri, credentials) = (&server.uri, server.credentials.type_name());
            let v3 = match server.features.xds_v3 {
                true => ", xDS v3",
                false => "",
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{of} {uri} ({credentials}{v3})");
        }
    };
    servers("server", bootstrap.servers());
    for (name, authority) in bootstrap.authorities() {
        match authority.servers.is_empty() {
            true => servers(&format!("authority {name:?}: server"), bootstrap.servers()),
            false => servers(&format!("authority {name:?}: server"), &authority.servers),
        }
    }
    text
}
