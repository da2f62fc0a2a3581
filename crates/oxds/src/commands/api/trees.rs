//! Loading of trees, and output of their errors.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use oxds_apicheck::bump::{LOCK_FILE, Lock};
use oxds_apicheck::check::Settings;
use oxds_apicheck::config::{CONFIG_FILE, Config};
use oxds_apicheck::finding::Language;
use oxds_apicheck::input::{self, Input, LoadOptions, Unusable};
use oxds_apicheck::ledger::{LEDGER_FILE, Ledger};
use oxds_apicheck::model::Tree;
use oxds_apicheck::report::plain;
use oxds_apicheck::rule::Profile;

use crate::exit::Failure;
use crate::progress;

/// Tree to check, and its files.
#[derive(Debug, clap::Args)]
pub(super) struct TreeArgs {
    /// Tree: a folder, a commit (.git#ref=…), a descriptor set, a crate
    #[arg(value_name = "TREE", default_value = ".")]
    tree: Input,
    /// Folder that is searched for imports; its files are not checked
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Check only files below this path of the tree
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Do not check files below this path of the tree
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
}

/// Folder of a tree that a command changes.
#[derive(Debug, clap::Args)]
pub(super) struct FolderArgs {
    /// Folder of the tree
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) tree: PathBuf,
    /// Folder that is searched for imports; its files are not changed
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
}

/// Tree that describes messages.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// Tree: a folder, a commit (.git#ref=…), a descriptor set, a crate
    #[arg(long, value_name = "TREE", default_value = ".")]
    tree: Input,
    /// Folder that is searched for imports
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
}

impl ImportArgs {
    pub(super) fn load(&self) -> Result<Tree, Failure> {
        let mut options = LoadOptions::default();
        options.includes = self.include.clone();
        let what = format!("reading {}", self.tree);
        let tree = progress::while_working(&what, || input::load(&self.tree, &options));
        tree.map_err(failure)
    }

    /// Reads `oxds-ledger.yaml` of the tree.
    pub(super) fn ledger(&self) -> Result<Option<Ledger>, Failure> {
        ledger(&self.tree)
    }
}

impl FolderArgs {
    pub(super) fn load(&self) -> Result<Tree, Failure> {
        let mut options = LoadOptions::default();
        options.includes = self.include.clone();
        input::load(&Input::Folder(self.tree.clone()), &options).map_err(failure)
    }
}

/// Base of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct AgainstArgs {
    /// Older tree, written like TREE
    /// [default: merge base of HEAD and the default branch]
    #[arg(long, value_name = "TREE")]
    against: Option<Input>,
}

/// Profile and other selection of rules.
#[derive(Debug, clap::Args)]
pub(super) struct RuleArgs {
    /// Set of rules [default: from oxds-api.yaml, or policy]
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    /// Languages whose generated code matters: cpp, go, java, py [default: all]
    #[arg(long, value_name = "LANG", value_delimiter = ',')]
    lang: Vec<Language>,
    /// Make any change of validation inside a major an error, looser validation included
    #[arg(long)]
    strict_validation: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    /// The stable-API versioning policy as written
    Policy,
    /// Envoy's current practice: v3 is never replaced
    EnvoyToday,
}

impl TreeArgs {
    /// Returns the folder of the tree, if it is one. It contains configuration and lock.
    pub(super) fn folder(&self) -> Option<&PathBuf> {
        match &self.tree {
            Input::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    /// Returns the input of the tree.
    pub(super) fn input(&self) -> &Input {
        &self.tree
    }

    fn options(&self) -> LoadOptions {
        let mut options = LoadOptions::default();
        options.includes = self.include.clone();
        options.paths = self.path.clone();
        options.excludes = self.exclude.clone();
        options
    }

    pub(super) fn load(&self) -> Result<Tree, Failure> {
        self.load_like(&self.tree)
    }

    /// Loads another tree with the same options.
    pub(super) fn load_like(&self, input: &Input) -> Result<Tree, Failure> {
        let what = format!("reading {input}");
        let tree = progress::while_working(&what, || input::load(input, &self.options()));
        tree.map_err(failure)
    }

    /// Loads the tree and its base, and describes the comparison.
    pub(super) fn load_pair(&self, against: &AgainstArgs) -> Result<Pair, Failure> {
        let (base, description) = match &against.against {
            Some(input) => (input.clone(), input.to_string()),
            None => {
                let folder = self.folder().ok_or_else(|| {
                    Failure::usage(format_args!("missing base of comparison for {}", self.tree))
                        .hint("set --against TREE; only a folder has a default base")
                })?;
                let base = input::merge_base(folder).map_err(|error| failure(error.into()))?;
                (base.input, base.description)
            }
        };
        let options = self.options();
        // Load both trees in parallel: parsing uses all cores, but first waits for git or the disk.
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
            // The folder is new on this branch: all of it is an addition.
            Err(input::Failure::Unusable(Unusable::Empty(_))) if against.against.is_none() => {
                Ok(Tree::default())
            }
            old => old,
        };
        Ok(Pair {
            old: old.map_err(failure)?,
            new: new.map_err(failure)?,
            old_lock: lock(&base)?,
            new_lock: self.lock()?,
            description: format!("{} against {description}", self.tree),
            base,
        })
    }

    /// Reads `oxds-api.yaml` of the tree.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let Some(folder) = self.folder() else {
            return Ok(Config::default());
        };
        let config = Config::read(&folder.join(CONFIG_FILE)).map_err(Failure::usage)?;
        Ok(config.unwrap_or_default())
    }

    /// Reads `oxds-api.lock.json` of the tree.
    pub(super) fn lock(&self) -> Result<Option<Lock>, Failure> {
        lock(&self.tree)
    }

    /// Reads `oxds-ledger.yaml` of the tree.
    pub(super) fn ledger(&self) -> Result<Option<Ledger>, Failure> {
        ledger(&self.tree)
    }
}

fn ledger(input: &Input) -> Result<Option<Ledger>, Failure> {
    let Input::Folder(folder) = input else {
        return Ok(None);
    };
    Ledger::read(&folder.join(LEDGER_FILE)).map_err(Failure::usage)
}

/// Old and new tree of a comparison.
pub(super) struct Pair {
    pub(super) old: Tree,
    pub(super) new: Tree,
    pub(super) old_lock: Option<Lock>,
    pub(super) new_lock: Option<Lock>,
    /// Input of the old tree.
    pub(super) base: Input,
    /// Description of the comparison.
    pub(super) description: String,
}

fn lock(input: &Input) -> Result<Option<Lock>, Failure> {
    let bytes = input::read_top_file(input, LOCK_FILE).map_err(|error| failure(error.into()))?;
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let lock = Lock::parse(&text, LOCK_FILE.as_ref());
    lock.map(Some).map_err(Failure::usage)
}

impl RuleArgs {
    /// Merges command line and configuration; the command line has priority.
    pub(super) fn settings(&self, config: &Config) -> Settings {
        let profile = self.profile.map(|name| match name {
            ProfileName::Policy => Profile::Policy,
            ProfileName::EnvoyToday => Profile::EnvoyToday,
        });
        let languages = if self.lang.is_empty() {
            &config.languages
        } else {
            &self.lang
        };
        let mut settings = Settings::default();
        settings.profile = profile.or(config.profile).unwrap_or_default();
        settings.languages = languages.iter().copied().collect::<BTreeSet<_>>();
        settings.strict_validation = self.strict_validation;
        settings.policy = config.policy.clone();
        settings
    }
}

/// Maximum number of compile errors that are listed. More are counted: they often have one cause.
const LISTED: usize = 100;

/// Reads `oxds-api.yaml` of an earlier state of the tree. An unreadable one is unknown.
pub(super) fn config_of(input: &Input) -> Option<Config> {
    let bytes = input::read_top_file(input, CONFIG_FILE).ok()?;
    match bytes {
        None => Some(Config::default()),
        Some(bytes) => Config::parse(CONFIG_FILE.as_ref(), &String::from_utf8_lossy(&bytes)).ok(),
    }
}

/// Converts a loading error. Errors in proto files are listed on stderr with their locations.
pub(super) fn failure(failure: input::Failure) -> Failure {
    match failure {
        input::Failure::Unusable(unusable) => Failure::usage(plain(&unusable.to_string())),
        input::Failure::Compile(errors) => {
            let mut stderr = std::io::stderr().lock();
            for error in errors.iter().take(LISTED) {
                // A closed stderr is not an error.
                let _ = writeln!(stderr, "{}", plain(&error.to_string()));
                if let Some(other) = &error.other {
                    let place = other.to_string();
                    let _ = writeln!(stderr, "{}: note: first declaration", plain(&place));
                }
            }
            if let Some(more) = errors.len().checked_sub(LISTED).filter(|more| *more > 0) {
                let _ = writeln!(stderr, "{more} more errors are not listed");
            }
            let count = errors.len();
            let noun = if count == 1 { "error" } else { "errors" };
            let failure = Failure::broken(format_args!(
                "the proto files do not compile: {count} {noun}"
            ));
            match errors.iter().find_map(|error| testdata(&error.at.path)) {
                Some(folder) => failure.hint(format_args!(
                    "files below {folder} are checked like all others; `--exclude PATH` leaves them out"
                )),
                None => failure,
            }
        }
    }
}

/// Returns the name of the folder with test files that a path leads through.
fn testdata(path: &str) -> Option<&str> {
    let mut folders = path.split('/');
    folders.find(|folder| {
        matches!(
            *folder,
            "testdata" | "test-data" | "test_data" | "testprotos"
        )
    })
}
