//! `oxds api`: checks of a versioned protobuf API against a stable-API policy.
//!
//! ```text
//!  trees: --against, -I, --path ─► oxds-apicheck ─► report: --format, --fail-on ─► exit code
//! ```

mod check;
mod clock;
mod except;
mod explain;
mod hash;
mod major;
mod report;
mod review;
mod stubs;
mod translate;
mod trees;
mod version;

use clap::Subcommand;

use crate::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
    oxds api check                                   # this branch against its merge base with main
  oxds api check proto --against .git#tag=v1.4.0
  oxds api breaking . --against crate:envoy-types@0.7.7#subdir=proto/data-plane-api
  oxds api check --format sarif > api.sarif        # or github, gitlab, junit, json
  oxds api explain FIELD_RENUMBERED

A tree is a folder (with or without buf.yaml), a commit (.git#branch=main, .git#ref=…,subdir=…), a \
FileDescriptorSet (set.binpb, set.json), or a crate that cargo has fetched (crate:NAME@VERSION).

Exit codes: 0 clean, 1 findings, 2 wrong arguments or unreadable input, 3 a tree does not compile.";

/// Check a versioned protobuf API: breaking changes, file versions, frozen packages
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Breaking(check::BreakingArgs),
    Lint(check::LintArgs),
    /// Check that a package depends on one version of each other package; both paths are shown
    Odr(check::LintArgs),
    Clock(clock::ClockArgs),
    Audit(clock::AuditArgs),
    Hash(hash::Args),
    Bump(version::BumpArgs),
    Freeze(version::FreezeArgs),
    SuggestVersion(version::SuggestArgs),
    NextMajor(major::NextMajorArgs),
    Promote(major::PromoteArgs),
    Typemap(major::TypemapArgs),
    Translate(translate::Args),
    Stubs(stubs::Args),
    Review(review::Args),
    Explain(explain::Args),
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Check(args) => check::check(args),
        Command::Breaking(args) => check::breaking(args),
        Command::Lint(args) => check::lint(args),
        Command::Odr(args) => check::odr(args),
        Command::Clock(args) => clock::clock(args),
        Command::Audit(args) => clock::audit(args),
        Command::Hash(args) => hash::run(args),
        Command::Bump(args) => version::bump(args),
        Command::Freeze(args) => version::freeze(args),
        Command::SuggestVersion(args) => version::suggest(args),
        Command::NextMajor(args) => major::next_major(args),
        Command::Promote(args) => major::promote(args),
        Command::Typemap(args) => major::typemap(args),
        Command::Translate(args) => translate::run(args),
        Command::Stubs(args) => stubs::run(args),
        Command::Review(args) => review::run(args),
        Command::Explain(args) => explain::run(args),
    }
}
