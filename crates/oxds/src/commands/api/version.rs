//! `oxds api bump`, `freeze` and `suggest-version`: file versions, frozen packages, tree version.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use oxds_apicheck::bump::{self, Bump, Edit, LOCK_FILE, Lock, VersionedTree, Versions};
use oxds_apicheck::check;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::report::Report;
use oxds_apicheck::rules;
use semver::Version;

use super::report::ReportArgs;
use super::trees::{AgainstArgs, FolderArgs, Pair, RuleArgs, TreeArgs};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// List changed files with an outdated version, or update their versions
#[derive(Debug, clap::Args)]
pub(super) struct BumpArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    against: AgainstArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Write the versions: into the file option if a file has it, otherwise into oxds-api.lock.json
    #[arg(long)]
    fix: bool,
    /// Also give a first version to every file without one; from then on, versions are checked
    #[arg(long, requires = "fix")]
    init: bool,
}

/// Freeze packages in oxds-api.lock.json: any later change of meaning fails `check`
#[derive(Debug, clap::Args)]
pub(super) struct FreezeArgs {
    /// Packages to freeze
    #[arg(value_name = "PACKAGE", required = true)]
    packages: Vec<String>,
    #[command(flatten)]
    folder: FolderArgs,
}

/// Print the next version of the whole tree
#[derive(Debug, clap::Args)]
pub(super) struct SuggestArgs {
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    against: AgainstArgs,
    #[command(flatten)]
    rules: RuleArgs,
    /// Current version of the older tree
    #[arg(long, value_name = "VERSION")]
    current: Option<Version>,
}

pub(super) fn bump(args: &BumpArgs) -> Result<Exit, Failure> {
    let mut pair = args.tree.load_pair(&args.against)?;
    let config = args.tree.config()?;
    let breaking = check::breaking(&pair.old, &pair.new, &args.rules.settings(&config));
    let lock = pair.new_lock.take();
    let hashes = hashes(&pair);
    let (old_versions, new_versions) = (
        Versions::of(&pair.old, VERSION_OPTION, pair.old_lock.as_ref()),
        Versions::of(&pair.new, VERSION_OPTION, lock.as_ref()),
    );
    let old = VersionedTree::new(&pair.old, &hashes.0, &old_versions);
    let new = VersionedTree::new(&pair.new, &hashes.1, &new_versions);
    if !args.fix {
        let findings = rules::versions::find(old, new, lock.as_ref(), &breaking);
        let report = Report::new(
            findings,
            Some(&pair.old),
            Some(&pair.new),
            Some(pair.description.clone()),
        );
        return args.report.print(&report);
    }
    let folder = args
        .tree
        .folder()
        .ok_or_else(|| Failure::usage("--fix: TREE must be a folder"))?;
    let mut bumps = bump::bumps(old, new, &breaking);
    let mut lock = lock.unwrap_or_default();
    bumps.extend(bump::stale(new, &lock, &bumps));
    if args.init {
        let known: HashSet<_> = bumps.iter().map(|bump| bump.path.clone()).collect();
        let first = bump::first_versions(new).into_iter();
        bumps.extend(first.filter(|bump| !known.contains(&bump.path)));
    }
    let edits = bump::edits(&pair.new, &hashes.1, &bumps, VERSION_OPTION, &mut lock);
    write(&pair, edits.map_err(Failure::usage)?)?;
    if !lock.files.is_empty() || !lock.frozen.is_empty() {
        lock.write(&folder.join(LOCK_FILE))
            .map_err(Failure::usage)?;
    }
    let mut output = Output::new();
    for Bump { path, to, .. } in &bumps {
        if let Some(to) = to {
            output.plain_line(&format!("{path}: {to}"))?;
        }
    }
    Ok(Exit::Success)
}

/// Applies the edits to each file.
fn write(pair: &Pair, edits: Vec<Edit>) -> Result<(), Failure> {
    let mut by_file: BTreeMap<String, Vec<Edit>> = BTreeMap::new();
    for edit in edits {
        by_file.entry(edit.path.clone()).or_default().push(edit);
    }
    for (path, edits) in by_file {
        let Some(file) = pair.new.file(&path) else {
            continue;
        };
        let text = file.text.as_deref().unwrap_or_default();
        let display = Path::new(&*file.display);
        std::fs::write(display, bump::apply(text, &edits))
            .map_err(|error| Failure::usage(format_args!("{}: {error}", display.display())))?;
    }
    Ok(())
}

pub(super) fn freeze(args: &FreezeArgs) -> Result<Exit, Failure> {
    let tree = args.folder.load()?;
    let hashes = Hashes::of(&tree, VERSION_OPTION);
    let path = args.folder.tree.join(LOCK_FILE);
    let mut lock = Lock::read(&path)
        .map_err(Failure::usage)?
        .unwrap_or_default();
    let packages: Vec<&str> = args.packages.iter().map(String::as_str).collect();
    let changed = bump::freeze(&hashes, &packages, &mut lock).map_err(Failure::usage)?;
    lock.write(&path).map_err(Failure::usage)?;
    let mut output = Output::new();
    for package in packages {
        output.plain_line(&format!("{package} is frozen in {}", path.display()))?;
    }
    for change in &changed {
        output.plain_line(&format!("{} changed after the freeze", change.package))?;
    }
    Ok(if changed.is_empty() {
        Exit::Success
    } else {
        Exit::Negative
    })
}

pub(super) fn suggest(args: &SuggestArgs) -> Result<Exit, Failure> {
    let pair = args.tree.load_pair(&args.against)?;
    let config = args.tree.config()?;
    let findings = check::breaking(&pair.old, &pair.new, &args.rules.settings(&config));
    let hashes = hashes(&pair);
    let suggestion = bump::suggest(
        (&pair.old, &hashes.0),
        (&pair.new, &hashes.1),
        &findings,
        args.current.as_ref(),
    );
    let mut output = Output::new();
    let class = suggestion.class.map_or_else(
        || "none".to_owned(),
        |class| format!("{class:?}").to_lowercase(),
    );
    match suggestion.next {
        Some(next) => output.plain_line(&next.to_string())?,
        None => output.plain_line(&class)?,
    }
    let files: Vec<_> = suggestion
        .files
        .iter()
        .map(|(class, count)| format!("{count} {}", format!("{class:?}").to_lowercase()))
        .collect();
    if !files.is_empty() {
        output.plain_line(&format!(
            "{class}: changed files by class: {}",
            files.join(", ")
        ))?;
    }
    Ok(Exit::Success)
}

fn hashes(pair: &Pair) -> (Hashes, Hashes) {
    (
        Hashes::of(&pair.old, VERSION_OPTION),
        Hashes::of(&pair.new, VERSION_OPTION),
    )
}
