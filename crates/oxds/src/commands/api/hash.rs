//! `oxds api hash`: the semantic hash.

use clap::ValueEnum;
use oxds_apicheck::hash::{self, Hashes, VERSION_OPTION};
use serde::Serialize;

use super::trees::TreeArgs;
use crate::commands::Format;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print the semantic hash of each file, package or root resource, which changes with the meaning
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    tree: TreeArgs,
    /// Hashed elements
    #[arg(long, value_enum, default_value_t)]
    of: Of,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Of {
    /// Each file: its declarations, and the closure over the types it uses
    #[default]
    Files,
    /// Each package, independent of its split into files
    Packages,
    /// Each message that a service returns as a resource, with all types that it can contain
    Roots,
}

#[derive(Serialize)]
struct Line {
    name: String,
    local: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    closure: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let tree = args.tree.load()?;
    let line = |name: &str, local: String, closure: Option<String>| Line {
        name: name.to_owned(),
        local,
        closure,
    };
    let mut lines: Vec<Line> = match args.of {
        Of::Files => {
            let hashes = Hashes::of(&tree, VERSION_OPTION);
            let files = tree.targets().filter_map(|file| hashes.file(&file.path));
            files
                .map(|file| {
                    line(
                        &file.path,
                        file.local.to_string(),
                        Some(file.closure.to_string()),
                    )
                })
                .collect()
        }
        Of::Packages => {
            let hashes = Hashes::of(&tree, VERSION_OPTION);
            let of_targets = |package: &str| tree.targets().any(|file| *file.package == *package);
            let packages = hashes
                .packages()
                .iter()
                .filter(|(name, _)| of_targets(name));
            packages
                .map(|(name, digest)| line(name, digest.to_string(), None))
                .collect()
        }
        Of::Roots => hash::roots(&tree)
            .into_iter()
            .map(|message| line(&message.name, hash::root(&tree, message).to_string(), None))
            .collect(),
    };
    lines.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut output = Output::new();
    match args.format {
        Format::Json => output.json(&lines)?,
        Format::Text => {
            for Line {
                name,
                local,
                closure,
            } in &lines
            {
                let closure = closure.as_ref().map(|closure| format!("{closure}  "));
                output.plain_line(&format!("{local}  {}{name}", closure.unwrap_or_default()))?;
            }
        }
    }
    Ok(Exit::Success)
}
