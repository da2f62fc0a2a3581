//! `oxds publish`: a folder becomes the state of a lane in etcd, which all replicas serve.

mod report;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use oxds_etcd::Segment;
use oxds_etcd::publisher::{
    DEFAULT_REQUEST_LIMIT, Foreign, MergedState, PublishError, PublishOptions, Wanted,
};
use oxds_server::store::etcd::writer::{self, FolderEntries, PublishNotice, Session};
use oxds_server::{Finding, Severity};
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::args::etcd::EtcdArgs;
use super::args::lifecycle::FolderFieldArgs;
use super::{Format, runtime};
use crate::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  oxds publish ./config --etcd http://127.0.0.1:2379
  oxds publish ./config --etcd http://127.0.0.1:2379 --dry-run --prune    # what would change
  oxds publish ./config --etcd https://etcd-0:2379,https://etcd-1:2379 --etcd-ca ca.pem --note 'ticket 7'
  oxds publish ./endpoints --etcd http://127.0.0.1:2379 --lane endpoints  # a second writer

The folder is checked as by `oxds validate`, then together with what is published. All changes become \
visible to replicas at once, whatever their number. Resources that are published and that the folder does \
not have stay, except with --prune.

Exit codes: 0 published, or nothing to publish; 1 errors, or not published; 2 the folder cannot be read \
or the arguments are wrong.";

/// Publish a folder to etcd, for `serve --etcd`
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("store").args(["endpoints"]).required(true))]
pub(crate) struct Args {
    /// Folder to publish
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Print what would be added, changed and removed; write nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove published resources of the lane that the folder does not have
    #[arg(long)]
    prune: bool,
    /// Overwrite resources that another writer changes at the same time
    #[arg(long)]
    force: bool,
    /// Lane: the part of the configuration that this writer owns
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = lane)]
    lane: Segment,
    /// Publish resources of type Secret, too: etcd stores them in the clear
    #[arg(long)]
    with_secrets: bool,
    /// Restore the published state of keys that were changed without a publish
    #[arg(long, conflicts_with = "adopt")]
    repair: bool,
    /// Publish the changes of keys that were changed without a publish
    #[arg(long)]
    adopt: bool,
    /// Publish to an etcd that was restored from a backup, although replicas serve a later state
    #[arg(long)]
    accept_restored: bool,
    /// Text that is stored with the publish
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Largest request that etcd accepts, in bytes: its option of the same name
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_REQUEST_LIMIT, value_parser = request_limit)]
    max_request_bytes: usize,
    /// Fail on warnings, too: references to missing resources, deprecated fields, parts without effect
    #[arg(long)]
    strict: bool,
    /// Format of the report on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    fields: FolderFieldArgs,
    #[command(flatten)]
    etcd: EtcdArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let target = args.etcd.target()?;
    let target = target.ok_or_else(|| Failure::usage("expected --etcd"))?;
    let options = args.options(target.prefix.clone());
    let mut session = Session::new(target.endpoints, target.client);
    let folder = OnceCell::new();
    let mut judge = Judge {
        args,
        folder: &folder,
        findings: Vec::new(),
    };
    let runtime = runtime()?;
    let (outcome, space) = thread::scope(|scope| {
        // What is published is read from etcd while the folder is read.
        let (sender, loaded) = oneshot::channel();
        scope.spawn(|| sender.send(Folder::load(args)));
        let wanted = async {
            let loaded = loaded.await.ok()?;
            folder.get_or_init(|| loaded).as_ref().ok()?.wanted()
        };
        let judge = |state: &MergedState| judge.is_valid(state);
        runtime.block_on(async {
            let outcome = writer::publish(&mut session, options, wanted, judge, log).await;
            // The error of a failed publish has the cause.
            let space = match outcome {
                Ok(_) => session.space_warning().await,
                Err(_) => None,
            };
            (outcome, space)
        })
    });
    let merged = judge.findings;
    let mut findings = match folder.into_inner() {
        Some(folder) => folder?.findings,
        None => Vec::new(),
    };
    findings.extend(merged);
    findings.extend(space);
    match outcome {
        Ok(outcome) => {
            report::outcome(args.format, &args.lane, &outcome, &findings)?;
            Ok(Exit::Success)
        }
        Err(PublishError::Invalid) => {
            report::findings(args.format, &findings)?;
            Ok(Exit::Negative)
        }
        Err(error) => Err(report::failure(&error)),
    }
}

/// The folder to publish.
struct Folder {
    /// Findings, without references to what the folder lacks: that may be published.
    findings: Vec<Finding>,
    /// Empty if the folder is invalid.
    entries: Arc<FolderEntries>,
    is_invalid: bool,
    /// No reference of the folder leads out of it.
    is_closed: bool,
}

impl Folder {
    fn load(args: &Args) -> Result<Self, Failure> {
        let mut report = args.fields.load(&args.dir, false, None)?;
        let errors = report.count(Severity::Error);
        let all = errors + report.count(Severity::Warning);
        report.findings.retain(|finding| finding.rule != "dangling");
        let is_invalid = errors > 0 || is_invalid(&report.findings, args.strict);
        let entries = if is_invalid {
            FolderEntries::new()
        } else {
            writer::entries(&args.dir, &report).map_err(Failure::negative)?
        };
        Ok(Self {
            is_closed: report.findings.len() == all,
            findings: report.findings,
            entries: Arc::new(entries),
            is_invalid,
        })
    }

    /// Returns what is published; `None` if the folder is invalid.
    fn wanted(&self) -> Option<Wanted> {
        (!self.is_invalid).then(|| Wanted::State(Arc::clone(&self.entries)))
    }
}

/// The check of the state that would be published, with the findings of the last attempt.
struct Judge<'a> {
    args: &'a Args,
    folder: &'a OnceCell<Result<Folder, Failure>>,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn is_valid(&mut self, state: &MergedState) -> bool {
        let Args {
            dir, lane, strict, ..
        } = self.args;
        let Some(Ok(folder)) = self.folder.get() else {
            return false;
        };
        self.findings = if folder.is_closed && writer::is_of_folder(state, lane, &folder.entries) {
            Vec::new()
        } else {
            writer::check(state, dir, lane, &folder.entries, *strict)
        };
        !is_invalid(&self.findings, *strict)
    }
}

fn is_invalid(findings: &[Finding], strict: bool) -> bool {
    let is_bad = |finding: &Finding| strict || finding.severity == Severity::Error;
    findings.iter().any(is_bad)
}

fn log(notice: PublishNotice) {
    match notice {
        PublishNotice::Completed { publish, by } => {
            info!(%publish, by, "completed the publish of another writer");
        }
        PublishNotice::Undone { publish } => {
            info!(%publish, "removed what a writer left that was stopped before its publish");
        }
        PublishNotice::MemberFailed { cause } => {
            warn!(
                cause,
                "a member of etcd failed, trying again for up to 30 s"
            );
        }
    }
}

impl Args {
    fn options(&self, prefix: oxds_etcd::Prefix) -> PublishOptions {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        PublishOptions {
            by: user_and_machine(),
            at: since_1970.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0)),
            note: self.note.clone(),
            prune: self.prune,
            force: self.force,
            foreign: match (self.repair, self.adopt) {
                (true, _) => Foreign::Repair,
                (_, true) => Foreign::Adopt,
                _ => Foreign::Fail,
            },
            with_secrets: self.with_secrets,
            accept_restored: self.accept_restored,
            dry_run: self.dry_run,
            request_limit: self.max_request_bytes,
            ..PublishOptions::new(prefix, self.lane.clone(), writer::publish_id())
        }
    }
}

/// Returns who publishes, such as `alice@ci-7`: for people, not for authentication.
fn user_and_machine() -> String {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME"));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let machine = machine.or_else(|| variable("HOSTNAME"));
    let unknown = || "unknown".to_owned();
    let (user, machine) = (
        user.unwrap_or_else(unknown),
        machine.unwrap_or_else(unknown),
    );
    format!("{user}@{}", machine.trim())
}

pub(super) fn lane(text: &str) -> Result<Segment, String> {
    Segment::lane(text).map_err(|error| error.to_string())
}

fn request_limit(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    match bytes {
        ..4096 => Err("expected at least 4096 bytes".to_owned()),
        bytes => Ok(bytes),
    }
}
