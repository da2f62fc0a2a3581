//! `oxds runtime`: the runtime keys of a server, their layers and readers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::args::control_plane::ControlPlaneArgs;
use super::control_plane::ControlPlane;
use super::{View, runtime};
use crate::exit::{Exit, Failure};
use crate::table::Table;

const EXAMPLES: &str = "\
Examples:
  oxds runtime                                   # all keys of the server on this machine
  oxds runtime envoy.deprecated_features:        # keys that begin with this text
  oxds runtime --server 10.0.0.7:18000 -o json

It prints each key with its value, the layer that decides it, and the parts of the server that have read it. \
A key that was read but is not set has no value: its reader uses its default. Below are the layers; \
later ones win.

Exit codes: 0 all layers are current; 1 a layer has an error and keeps its last values, or no response.";

/// Print the runtime keys of a server, their layers and readers
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print only keys that begin with this text
    #[arg(value_name = "PREFIX", default_value = "")]
    prefix: String,
    /// Format of the result on stdout
    #[arg(
        short,
        long,
        visible_alias = "format",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    output: View,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
}

/// The runtime of a server: its form is in `docs/runtime.md`.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Report {
    layers: Vec<String>,
    entries: BTreeMap<String, Key>,
    layer_states: Vec<LayerState>,
    read_unset: Vec<ReadKey>,
    keys: usize,
    #[serde(skip_serializing)]
    next: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Key {
    layer_values: Vec<String>,
    final_value: String,
    layer: String,
    read_by: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct ReadKey {
    key: String,
    read_by: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct LayerState {
    name: String,
    source: String,
    keys: usize,
    error: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let report = runtime()?.block_on(async {
        let control_plane = ControlPlane::connect(&args.control_plane.server()?).await?;
        fetch(&control_plane, &args.prefix).await
    })?;
    args.output.write(&report, || table(&report))?;
    let has_error = report
        .layer_states
        .iter()
        .any(|layer| layer.error.is_some());
    Ok(if has_error {
        Exit::Negative
    } else {
        Exit::Success
    })
}

/// Fetches all pages.
async fn fetch(control_plane: &ControlPlane, prefix: &str) -> Result<Report, Failure> {
    let none = || {
        Failure::negative("the control plane shows no runtime: expected `oxds serve`")
            .hint("clients see the runtime if a rule of --authorize lets them inspect others")
    };
    let mut report: Option<Report> = None;
    let mut next = Some(ControlPlane::runtime_path(prefix));
    while let Some(path) = next {
        let page = control_plane.runtime_page(&path).await.ok_or_else(none)?;
        let mut page: Report = serde_json::from_slice(&page).map_err(|error| {
            Failure::negative(format_args!("malformed page of the runtime: {error}"))
        })?;
        // A page without progress would repeat without end.
        next = page.next.take().filter(|_| !page.entries.is_empty());
        match &mut report {
            Some(report) => report.entries.append(&mut page.entries),
            None => report = Some(page),
        }
    }
    report.ok_or_else(none)
}

fn table(report: &Report) -> String {
    let mut keys = Table::new(["KEY", "VALUE", "LAYER", "READ BY"]);
    let set = report.entries.iter().map(|(key, entry)| {
        let (value, layer) = (entry.final_value.clone(), entry.layer.clone());
        (key.clone(), [value, layer, entry.read_by.join(", ")])
    });
    let unset = report.read_unset.iter().map(|read| {
        let by = read.read_by.join(", ");
        (read.key.clone(), [String::new(), String::new(), by])
    });
    let rows: BTreeMap<_, _> = set.chain(unset).collect();
    let any = !rows.is_empty();
    for (key, [value, layer, read_by]) in rows {
        keys.row([key, value, layer, read_by]);
    }
    let keys = if any {
        keys.text()
    } else {
        "no runtime keys\n".to_owned()
    };
    let mut layers = Table::new(["LAYER", "SOURCE", "KEYS", "ERROR"]);
    for layer in &report.layer_states {
        layers.row([
            layer.name.clone(),
            layer.source.clone(),
            layer.keys.to_string(),
            layer.error.clone().unwrap_or_default(),
        ]);
    }
    format!("{keys}\n{}", layers.text())
}
