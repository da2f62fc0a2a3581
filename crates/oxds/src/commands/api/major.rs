//! `oxds api next-major`, `promote` and `typemap`: from one major to the next.

use std::path::PathBuf;

use oxds_apicheck::generate::{self, Difference, NextMajor, UpgradeReason};
use serde::Serialize;

use super::trees::{FolderArgs, TreeArgs};
use crate::commands::Format;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Generate the next major of every package that needs one: without deprecated elements, with all
/// annotations applied
#[derive(Debug, clap::Args)]
pub(super) struct NextMajorArgs {
    #[command(flatten)]
    tree: TreeArgs,
    /// Folder for the generated files [default: TREE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write nothing; exit 1 if a file is missing or outdated
    #[arg(long)]
    check: bool,
    /// Write nothing; list the types that need a new major, with the reason
    #[arg(long, conflicts_with = "check")]
    why: bool,
}

/// Make alpha packages stable: rename them and all uses, freeze the previous major, list the type
/// URLs that change
#[derive(Debug, clap::Args)]
pub(super) struct PromoteArgs {
    /// Alpha packages, such as shop.v2alpha
    #[arg(value_name = "PACKAGE", required = true)]
    packages: Vec<String>,
    #[command(flatten)]
    folder: FolderArgs,
    /// Change nothing; list all changes
    #[arg(long)]
    dry_run: bool,
}

/// Print each type with its name one major before
#[derive(Debug, clap::Args)]
pub(super) struct TypemapArgs {
    #[command(flatten)]
    tree: TreeArgs,
    /// Output format on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn next_major(args: &NextMajorArgs) -> Result<Exit, Failure> {
    let next = generate::next_major(&args.tree.load()?);
    if args.why {
        return why(&next);
    }
    let root = args
        .out
        .as_ref()
        .or_else(|| args.tree.folder())
        .ok_or_else(|| {
            Failure::usage("missing output folder: TREE is not a folder").hint("set --out DIR")
        })?;
    let mut output = Output::new();
    if args.check {
        let differences = generate::differences(root, &next.files);
        for difference in &differences {
            let (path, what) = match difference {
                Difference::Missing(path) => (path, "is missing"),
                Difference::Changed(path) => (path, "is outdated"),
            };
            output.plain_line(&format!("{} {what}", path.display()))?;
        }
        return Ok(if differences.is_empty() {
            Exit::Success
        } else {
            Exit::Negative
        });
    }
    let written = generate::write(root, &next.files).map_err(Failure::usage)?;
    for path in &written {
        output.plain_line(&path.display().to_string())?;
    }
    output.plain_line(&format!(
        "{} files of {} packages, {} written",
        next.files.len(),
        next.packages.len(),
        written.len()
    ))?;
    Ok(Exit::Success)
}

fn why(next: &NextMajor) -> Result<Exit, Failure> {
    let mut output = Output::new();
    for (name, reason) in &next.reasons {
        let reason = match reason {
            UpgradeReason::Deprecated => "is deprecated".to_owned(),
            UpgradeReason::DeprecatedMember(member) => format!("has deprecated member {member}"),
            UpgradeReason::MovesTo(package) => format!("moves to {package}"),
            UpgradeReason::RefersTo(other) => format!("refers to {other}"),
        };
        output.plain_line(&format!("{name} {reason}"))?;
    }
    Ok(Exit::Success)
}

pub(super) fn promote(args: &PromoteArgs) -> Result<Exit, Failure> {
    let tree = args.folder.load()?;
    let packages: Vec<&str> = args.packages.iter().map(String::as_str).collect();
    let promotion = generate::promote(&tree, &packages).map_err(Failure::usage)?;
    let mut output = Output::new();
    if !args.dry_run {
        let (files, removed) = (&promotion.files, &promotion.removed);
        generate::apply(&args.folder.tree, files, removed).map_err(Failure::usage)?;
    }
    for file in &promotion.files {
        output.plain_line(&format!("written: {}", file.path))?;
    }
    for path in &promotion.removed {
        output.plain_line(&format!("removed: {path}"))?;
    }
    for (old, new) in &promotion.type_urls {
        output.plain_line(&format!("type URL: {old} -> {new}"))?;
    }
    for package in &promotion.not_frozen {
        let how = format!("`oxds api freeze {package}` freezes it in the lock file");
        output.plain_line(&format!(
            "not frozen: {package} has files without a status; {how}"
        ))?;
    }
    Ok(Exit::Success)
}

#[derive(Serialize)]
struct Pair<'a> {
    old: &'a str,
    new: &'a str,
    declaration: &'static str,
    old_in_tree: bool,
}

pub(super) fn typemap(args: &TypemapArgs) -> Result<Exit, Failure> {
    let pairs = generate::typemap(&args.tree.load()?);
    let pairs: Vec<Pair<'_>> = pairs
        .iter()
        .map(|pair| Pair {
            old: &pair.old,
            new: &pair.new,
            declaration: if pair.message { "message" } else { "enum" },
            old_in_tree: pair.old_in_tree,
        })
        .collect();
    let mut output = Output::new();
    match args.format {
        Format::Json => output.json(&pairs)?,
        Format::Text => {
            for pair in &pairs {
                let gone = if pair.old_in_tree {
                    ""
                } else {
                    "  (not in this tree)"
                };
                output.plain_line(&format!("{} -> {}{gone}", pair.old, pair.new))?;
            }
        }
    }
    Ok(Exit::Success)
}
