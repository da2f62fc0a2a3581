//! `oxds deprecations`: deprecated fields that resources use, and the clients that would lose them.

use std::path::PathBuf;

use clap::ValueEnum;
use http::StatusCode;
use oxds_server::{ClientVersion, DeprecatedElement, Deprecations, FirstUse};
use oxds_types::text;

use super::args::control_plane::ControlPlaneArgs;
use super::args::lifecycle::FolderFieldArgs;
use super::control_plane::ControlPlane;
use super::{Format, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::one_line;

const EXAMPLES: &str = "\
Examples:
  oxds deprecations ./config                     # a folder, for example in CI
  oxds deprecations ./config --ledger oxds-ledger.yaml --fail-on warned
  oxds deprecations --server 10.0.0.7:18000      # what a control plane serves, and its clients
  oxds deprecations ./config --format json | jq -r '.elements[].element'

For each deprecated field or enum value it prints since when it is deprecated, until when it may be used, \
its replacement, the places that use it, and the clients that have these resources, by name and version.

A field is `warned` at first. From the second release on, or if the API says so, it is `disallowed`: files \
that use it are not served, unless the runtime key allows it (`overridden`).

Exit codes: 0 nothing that --fail-on names; 1 something, or no response; 2 the folder cannot be read or the \
arguments are wrong.";

/// Print the deprecated fields that resources use, by file and line, and the clients that have them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of resources [default: ask the control plane]
    #[arg(value_name = "DIR", conflicts_with_all = ["server", "bootstrap"])]
    dir: Option<PathBuf>,
    /// Exit with 1 if a resource uses an element in this phase
    #[arg(long, value_enum, default_value_t, value_name = "PHASE")]
    fail_on: FailOn,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    fields: FolderFieldArgs,
    #[command(flatten)]
    control_plane: ControlPlaneArgs,
}

/// Uses that lead to exit code 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// None
    Never,
    /// Uses that keep files from being served
    NotServed,
    /// These, and uses in the second phase that the runtime allows
    #[default]
    Disallowed,
    /// All uses
    Warned,
}

impl FailOn {
    fn includes(self, element: &DeprecatedElement) -> bool {
        match self {
            Self::Never => false,
            Self::NotServed => element.is_disallowed(),
            Self::Disallowed => element.is_disallowed() || element.phase == "disallowed",
            Self::Warned => true,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let deprecations = match &args.dir {
        Some(dir) => {
            let report = args.fields.load(dir, false, None)?;
            Deprecations::of(&report.deprecated_uses)
        }
        None => {
            if args.fields.lifecycle.ledger.is_some() {
                return Err(Failure::usage(
                    "--ledger has no effect on a control plane: expected DIR, or `oxds serve --ledger`",
                ));
            }
            runtime()?.block_on(fetch(args))?
        }
    };
    let mut output = Output::new();
    match args.format {
        Format::Text => output.write(&as_text(&deprecations))?,
        Format::Json => output.json(&deprecations)?,
    }
    let mut elements = deprecations.elements.iter();
    Ok(if elements.any(|element| args.fail_on.includes(element)) {
        Exit::Negative
    } else {
        Exit::Success
    })
}

async fn fetch(args: &Args) -> Result<Deprecations, Failure> {
    let server = args.control_plane.server()?;
    let control_plane = ControlPlane::connect(&server).await?;
    let page = control_plane.page("/deprecations.json").await;
    let page = page.map_err(|status| {
        let failure = Failure::negative(format_args!(
            "{}: no /deprecations.json: {status}",
            server.address.authority()
        ));
        if status.starts_with(StatusCode::NOT_FOUND.as_str()) {
            failure.hint("only `oxds serve` of this version and later ones has it")
        } else {
            failure
        }
    })?;
    serde_json::from_slice(&page)
        .map_err(|error| Failure::negative(format_args!("malformed /deprecations.json: {error}")))
}

fn as_text(deprecations: &Deprecations) -> String {
    if deprecations.elements.is_empty() {
        return "no deprecated fields in use\n".to_owned();
    }
    let elements = deprecations.elements.iter().map(element);
    elements.collect::<Vec<_>>().join("\n")
}

fn element(element: &DeprecatedElement) -> String {
    let mut out = one_line(&element.element);
    out += &format!(": {}", one_line(&element.verdict));
    if element.cause.as_deref() == Some("runtime") {
        out += " by the runtime";
    }
    let times = |count: usize| format!("{count} {}", if count == 1 { "use" } else { "uses" });
    out += &format!(", {}\n", times(element.uses));
    let mut line = |name: &str, value: &str| out += &format!("  {name:<12} {}\n", one_line(value));
    if let Some(since) = &element.since {
        line("since", since);
    }
    if let Some(until) = &element.until {
        line("until", until);
    }
    match (&element.replacement, &element.no_replacement) {
        (Some(new), _) => line("use", new),
        (None, Some(reason)) => line("replacement", &format!("none: {reason}")),
        (None, None) => {}
    }
    if element.verdict != "warned" {
        line("runtime key", &element.runtime_key);
    }
    for at in &element.places {
        line("at", &place(at));
    }
    if element.more_places > 0 {
        line("at", &format!("{} more resources", element.more_places));
    }
    match element.clients.as_deref() {
        None => {}
        Some([]) => line("clients", "none"),
        Some(clients) => clients.iter().for_each(|one| line("clients", &client(one))),
    }
    out
}

fn place(place: &FirstUse) -> String {
    let position = match (place.line, place.column) {
        (Some(line), Some(column)) => format!(":{line}:{column}"),
        _ => String::new(),
    };
    let resource = match (&place.resource_type, &place.resource) {
        (Some(resource_type), Some(name)) => format!("{resource_type} {name}: "),
        _ => String::new(),
    };
    let times = match place.uses {
        0 | 1 => String::new(),
        uses => format!(" ({uses} times)"),
    };
    let text = format!("{}{position}: {resource}{}{times}", place.file, place.path);
    text::line(&text).into_owned()
}

fn client(client: &ClientVersion) -> String {
    let name = match client.user_agent.as_str() {
        "" => "unnamed",
        name => name,
    };
    let more = match client.nodes.saturating_sub(client.ids.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let nodes = if client.nodes == 1 { "node" } else { "nodes" };
    format!(
        "{name}: {} {nodes} ({}{more})",
        client.nodes,
        client.ids.join(", ")
    )
}
