//! `oxds bootstrap check`: checks a bootstrap file as gRPC clients read it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use oxds_client::{Bootstrap, BootstrapError};
use oxds_types::runtime::Snapshot;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Check a gRPC bootstrap file, and print its node and servers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JSON file to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let bootstrap = read(&args.file)?;
    Output::new().write(&summary(&bootstrap))?;
    Ok(Exit::Success)
}

/// Reads a bootstrap file as gRPC clients do. The failure names the file and the line or field.
pub(crate) fn read(file: &Path) -> Result<Bootstrap, Failure> {
    let name = file.display();
    let json = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format_args!("{name}: {error}")))?;
    Bootstrap::from_json(&json).map_err(|error| malformed(file, error))
}

/// As [`read`], with the features of a runtime in place of those of the environment.
pub(crate) fn read_in(file: &Path, runtime: &Snapshot) -> Result<Bootstrap, Failure> {
    let name = file.display();
    let json = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format_args!("{name}: {error}")))?;
    Bootstrap::from_json_in(&json, runtime).map_err(|error| malformed(file, error))
}

/// Returns the names of the certificate providers in a bootstrap file.
pub(crate) fn certificate_providers(file: &Path) -> Result<BTreeSet<String>, Failure> {
    read(file)?;
    let name = file.display();
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::usage(format_args!("{name}: {error}"));
    let json = std::fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    let json: Value = serde_json::from_str(&json).map_err(|error| unreadable(&error))?;
    let providers = json.get("certificate_providers").and_then(Value::as_object);
    Ok(providers
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect())
}

fn malformed(file: &Path, error: BootstrapError) -> Failure {
    let name = file.display();
    match error {
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
    }
}

/// Returns a line for the node, and one for each server.
fn summary(bootstrap: &Bootstrap) -> String {
    let node = bootstrap.node();
    let mut text = format!("node {:?}, cluster {:?}\n", node.id, node.cluster);
    let mut servers = |label: &str, servers: &[oxds_client::bootstrap::Server]| {
        for server in servers {
            let (uri, credentials) = (&server.uri, server.credentials.type_name());
            let v3 = if server.features.xds_v3 {
                ", xDS v3"
            } else {
                ""
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{label} {uri} ({credentials}{v3})");
        }
    };
    servers("server", bootstrap.servers());
    for (name, authority) in bootstrap.authorities() {
        // gRFC A47: an authority without servers uses the top-level ones.
        if authority.servers.is_empty() {
            servers(&format!("authority {name:?}: server"), bootstrap.servers());
        } else {
            servers(&format!("authority {name:?}: server"), &authority.servers);
        }
    }
    text
}
