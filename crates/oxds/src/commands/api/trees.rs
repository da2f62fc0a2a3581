//! Which trees are judged, and how their mistakes are told.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use oxds_apicheck::bump::{LOCK_FILE, Lock};
use oxds_apicheck::check::Settings;
use oxds_apicheck::exception::{CONFIG_FILE, Config};
use oxds_apicheck::finding::Language;
use oxds_apicheck::input::{self, Input, Options, Unusable};
use oxds_apicheck::ledger::{LEDGER_FILE, Ledger};
use oxds_apicheck::model::Tree;
use oxds_apicheck::rule::Profile;

use crate::exit::Failure;
use crate::progress;

/// The tree that is judged.
#[derive(Debug, clap::Args)]
pub(super) struct TreeArgs {
    /// The tree: a folder, a commit (.git#ref=…), a descriptor set, a crate
    #[arg(value_name = "TREE", default_value = ".")]
    tree: Input,
    /// A folder in which imports are looked for; nothing in it is judged
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Judge only what lies below this path of the tree
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Do not judge what lies below this path of the tree
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
}

/// What it is compared with.
#[derive(Debug, clap::Args)]
pub(super) struct AgainstArgs {
    /// The older tree, spelled like TREE
    /// [default: where HEAD left the default branch]
    #[arg(long, value_name = "TREE")]
    against: Option<Input>,
}

/// Which rules.
#[derive(Debug, clap::Args)]
pub(super) struct RuleArgs {
    /// The set of rules [default: that of oxds-api.yaml, or policy]
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    /// Only these languages' generated code matters: cpp, go, java, py [default: all]
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<Language>,
    /// Any change of validation inside a major is an error, looser ones too
    #[arg(long)]
    strict_validation: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    /// The stable-API versioning policy as written
    Policy,
    /// What Envoy does today: v3 for ever
    EnvoyToday,
}

impl TreeArgs {
    /// The folder, if the tree is one: where configuration and lock lie.
    pub(super) fn folder(&self) -> Option<&PathBuf> {
        match &self.tree {
            Input::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    /// Where the tree is.
    pub(super) fn input(&self) -> &Input {
        &self.tree
    }

    fn options(&self) -> Options {
        Options {
            includes: self.include.clone(),
            paths: self.path.clone(),
            excludes: self.exclude.clone(),
        }
    }

    pub(super) fn load(&self) -> Result<Tree, Failure> {
        self.load_like(&self.tree)
    }

    /// Another tree, read as this one is.
    pub(super) fn load_like(&self, input: &Input) -> Result<Tree, Failure> {
        let what = format!("reading {input}");
        let tree = progress::while_working(&what, || input::load(input, &self.options()));
        tree.map_err(failure)
    }

    /// The tree and the one that it is compared with; the comparison in words.
    pub(super) fn load_pair(&self, against: &AgainstArgs) -> Result<Pair, Failure> {
        let (base, words) = match &against.against {
            Some(input) => (input.clone(), input.to_string()),
            None => {
                let folder = self.folder().ok_or_else(|| {
                    Failure::usage(format_args!("what to compare {} with?", self.tree))
                        .hint("--against TREE says it; only a folder has a default")
                })?;
                let base = input::merge_base(folder).map_err(|error| failure(error.into()))?;
                (base.input, base.words)
            }
        };
        let options = self.options();
        // Both sides at once: each reads on all cores, but waits for git or a disk first.
        let what = format!("reading {} and {base}", self.tree);
        let (old, new) = progress::while_working(&what, || {
            std::thread::scope(|scope| {
                let old = scope.spawn(|| input::load(&base, &options));
                let new = input::load(&self.tree, &options);
                (old.join(), new)
            })
        });
        let old = old.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let old = match old {
            // A folder that is new on this branch: all of it is an addition.
            Err(input::Failure::Unusable(Unusable::Empty(_))) if against.against.is_none() => {
                Ok(Tree::default())
            }
            old => old,
        };
        Ok(Pair {
            old: old.map_err(failure)?,
            new: new.map_err(failure)?,
            old_lock: lock(&base)?,
            new_lock: lock(&self.tree)?,
            words: format!("{} against {words}", self.tree),
            base,
        })
    }

    /// `oxds-api.yaml` of the tree.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let Some(folder) = self.folder() else {
            return Ok(Config::default());
        };
        let config = Config::read(&folder.join(CONFIG_FILE)).map_err(Failure::usage)?;
        Ok(config.unwrap_or_default())
    }

    /// `oxds-ledger.yaml` of the tree.
    pub(super) fn ledger(&self) -> Result<Option<Ledger>, Failure> {
        let Some(folder) = self.folder() else {
            return Ok(None);
        };
        Ledger::read(&folder.join(LEDGER_FILE)).map_err(Failure::usage)
    }
}

/// An old and a new tree.
pub(super) struct Pair {
    pub(super) old: Tree,
    pub(super) new: Tree,
    pub(super) old_lock: Option<Lock>,
    pub(super) new_lock: Option<Lock>,
    /// Where the old tree is.
    pub(super) base: Input,
    /// What is compared with what.
    pub(super) words: String,
}

fn lock(input: &Input) -> Result<Option<Lock>, Failure> {
    let bytes = input::beside(input, LOCK_FILE).map_err(|error| failure(error.into()))?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let lock = Lock::parse(&text, LOCK_FILE.as_ref());
    lock.map(Some).map_err(Failure::usage)
}

impl RuleArgs {
    /// What the command line says goes before what the file says.
    pub(super) fn settings(&self, config: &Config) -> Settings {
        let profile = self.profile.map(|name| match name {
            ProfileName::Policy => Profile::Policy,
            ProfileName::EnvoyToday => Profile::EnvoyToday,
        });
        let languages = match self.lang.is_empty() {
            true => &config.languages,
            false => &self.lang,
        };
        Settings {
            profile: profile.or(config.profile).unwrap_or_default(),
            languages: languages.iter().copied().collect::<BTreeSet<_>>(),
            strict_validation: self.strict_validation,
            policy: config.policy.clone(),
        }
    }
}

/// A tree that cannot be had. Mistakes in protos are listed on stderr, each with its place.
pub(super) fn failure(failure: input::Failure) -> Failure {
    match failure {
        input::Failure::Unusable(unusable) => Failure::usage(unusable),
        input::Failure::Mistakes(mistakes) => {
            let mut stderr = std::io::stderr().lock();
            for mistake in &mistakes {
                // Nobody is left to tell when stderr is closed.
                let _ = writeln!(stderr, "{mistake}");
                if let Some(other) = &mistake.other {
                    let _ = writeln!(stderr, "{other}: note: the other one is here");
                }
            }
            let count = mistakes.len();
            let plural = if count == 1 { "" } else { "s" };
            Failure::broken(format_args!(
                "the protos do not compile: {count} mistake{plural}"
            ))
        }
    }
}
