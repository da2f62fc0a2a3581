//! `oxds api review`: the reviewers of a change.

use oxds_apicheck::review;
use serde::Serialize;

use super::trees::{AgainstArgs, TreeArgs};
use crate::commands::Format;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print whether a change needs a review by the API owners in oxds-ledger.yaml, and of which paths
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    against: AgainstArgs,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Json<'a> {
    verdict: &'a str,
    teams: &'a std::collections::BTreeMap<String, Vec<String>>,
    unowned: &'a [String],
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let pair = args.tree.load_pair(&args.against)?;
    let ledger = args.tree.ledger()?.unwrap_or_default();
    let review = review::review(&pair.old, &pair.new, &ledger.owners);
    let mut output = Output::new();
    match args.format {
        Format::Json => output.json(&Json {
            verdict: review.verdict(),
            teams: &review.teams,
            unowned: &review.unowned,
        })?,
        Format::Text => {
            output.plain_line(review.verdict())?;
            for (team, paths) in &review.teams {
                for path in paths {
                    output.plain_line(&format!("{path} {team}"))?;
                }
            }
        }
    }
    Ok(Exit::Success)
}
