//! Parts of a scenario that run in processes of their own.
//!
//! A part is this program started again. Its first line of output is its *hello* (usually the
//! address it bound); a part that measures prints its result as a line of JSON and ends. Parts that
//! serve end when their standard input closes, so that none outlives the run.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Subcommand;
use serde::de::DeserializeOwned;

use crate::api::{self, Work};
use crate::control;
use crate::memory::{self, Memory};
use crate::push::{self, Holding};
use crate::rpc::{self, Variant};
use crate::{load, serve};

/// One part, with what it needs to know.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// An echo backend on a port of the system's choice.
    Backend,
    /// An `oxds-server` over a folder.
    ControlPlane {
        #[arg(long)]
        folder: PathBuf,
    },
    /// An `oxds-server` with resources of its own making, which it changes as the lines say that it reads.
    Push {
        #[arg(long)]
        holding: Holding,
        #[arg(long)]
        count: usize,
        /// Groups of nodes, each of which has a few resources of its own.
        #[arg(long)]
        groups: usize,
        /// Speak TLS with those who have a certificate, by `server.pem`, `server.key` and `ca.pem` of this folder.
        #[arg(long)]
        keys: Option<PathBuf>,
    },
    /// Loads a folder until it is served, and says how long that took.
    Load {
        #[arg(long)]
        folder: PathBuf,
    },
    /// Parses the YAML of a folder, and no more.
    Parse {
        #[arg(long)]
        folder: PathBuf,
    },
    /// Does one of the works of `oxds api` on the repository in a folder.
    Api {
        #[arg(long)]
        folder: PathBuf,
        #[arg(long)]
        work: Work,
    },
    /// A client that calls at a rate.
    Calls {
        #[arg(long)]
        variant: Variant,
        #[arg(long)]
        rate: u32,
        bootstrap: String,
    },
    /// A client that holds all resources of a control plane, and answers what the lines ask that it reads.
    Holder {
        #[arg(long)]
        holding: Holding,
        #[arg(long)]
        control_plane: String,
    },
    /// A client that measures one variant of R-1.
    Client {
        #[arg(long)]
        variant: Variant,
        #[arg(long)]
        in_flight: usize,
        #[arg(long)]
        millis: u64,
        #[arg(long)]
        control_plane: String,
        #[arg(required = true)]
        backends: Vec<String>,
    },
}

impl Role {
    /// The command line that plays this role.
    fn arguments(&self) -> Vec<String> {
        match self {
            Role::Backend => vec!["backend".to_owned()],
            Role::ControlPlane { folder } => {
                vec![
                    "control-plane".to_owned(),
                    format!("--folder={}", folder.display()),
                ]
            }
            Role::Push {
                holding,
                count,
                groups,
                keys,
            } => {
                let mut arguments = vec![
                    "push".to_owned(),
                    format!("--holding={}", holding.name()),
                    format!("--count={count}"),
                    format!("--groups={groups}"),
                ];
                let keys = keys
                    .as_ref()
                    .map(|keys| format!("--keys={}", keys.display()));
                arguments.extend(keys);
                arguments
            }
            Role::Load { folder } => {
                vec!["load".to_owned(), format!("--folder={}", folder.display())]
            }
            Role::Parse { folder } => {
                vec!["parse".to_owned(), format!("--folder={}", folder.display())]
            }
            Role::Api { folder, work } => {
                let work = clap::ValueEnum::to_possible_value(work);
                vec![
                    "api".to_owned(),
                    format!("--folder={}", folder.display()),
                    format!("--work={}", work.as_ref().map_or("", |w| w.get_name())),
                ]
            }
            Role::Calls {
                variant,
                rate,
                bootstrap,
            } => {
                let variant = clap::ValueEnum::to_possible_value(variant);
                vec![
                    "calls".to_owned(),
                    format!(
                        "--variant={}",
                        variant.as_ref().map_or("", |v| v.get_name())
                    ),
                    format!("--rate={rate}"),
                    bootstrap.clone(),
                ]
            }
            Role::Holder {
                holding,
                control_plane,
            } => vec![
                "holder".to_owned(),
                format!("--holding={}", holding.name()),
                format!("--control-plane={control_plane}"),
            ],
            Role::Client {
                variant,
                in_flight,
                millis,
                control_plane,
                backends,
            } => {
                let variant = clap::ValueEnum::to_possible_value(variant);
                let mut arguments = vec![
                    "client".to_owned(),
                    format!(
                        "--variant={}",
                        variant.as_ref().map_or("", |v| v.get_name())
                    ),
                    format!("--in-flight={in_flight}"),
                    format!("--millis={millis}"),
                    format!("--control-plane={control_plane}"),
                ];
                arguments.extend(backends.iter().cloned());
                arguments
            }
        }
    }

    /// The processors a role may use: a client has one to itself, servers share the other, and loading is
    /// measured on all there are.
    fn processors(&self) -> &'static str {
        match self {
            Role::Client { .. } | Role::Holder { .. } => "0",
            Role::Load { .. } | Role::Parse { .. } | Role::Api { .. } => "0,1",
            _ => "1",
        }
    }

    /// Plays the role in this process.
    pub(crate) fn play(self) -> ExitCode {
        match self.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        match self {
            Role::Backend => runtime.block_on(serve::backend()),
            Role::ControlPlane { folder } => runtime.block_on(serve::control_plane(&folder)),
            Role::Push {
                holding,
                count,
                groups,
                keys,
            } => runtime.block_on(push::serve(holding, count, groups, keys.as_deref())),
            Role::Load { folder } => result(&runtime.block_on(load::load(&folder))?),
            Role::Parse { folder } => result(&load::parse(&folder)?),
            Role::Api { folder, work } => result(&api::work(&folder, work)?),
            Role::Calls {
                variant,
                rate,
                bootstrap,
            } => runtime.block_on(control::calls::play(variant, rate, &bootstrap)),
            Role::Holder {
                holding,
                control_plane,
            } => runtime.block_on(control::held::play(holding, &control_plane)),
            Role::Client {
                variant,
                in_flight,
                millis,
                control_plane,
                backends,
            } => {
                println!("ready");
                let length = Duration::from_millis(millis);
                let measured = runtime.block_on(rpc::client::measure(
                    variant,
                    &control_plane,
                    &backends,
                    in_flight,
                    length,
                ))?;
                result(&measured)
            }
        }
    }
}

fn result(measured: &impl serde::Serialize) -> Result<(), String> {
    println!(
        "{}",
        serde_json::to_string(measured).map_err(|error| error.to_string())?
    );
    Ok(())
}

/// A running part; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    child: Child,
    output: BufReader<ChildStdout>,
    hello: String,
}

impl Part {
    /// Starts a part and waits for its hello.
    pub(crate) fn start(role: &Role) -> Result<Self, String> {
        let mut part = Self::start_measuring(role)?;
        part.hello = part.line()?;
        Ok(part)
    }

    /// Starts a part that says nothing but its result.
    pub(crate) fn start_measuring(role: &Role) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut arguments = vec!["role".to_owned()];
        arguments.extend(role.arguments());
        Self::spawn(&program, role.processors(), &arguments)
    }

    /// Starts a peer's program, which follows the same conventions, and waits for its hello.
    pub(crate) fn start_program(program: &Path, arguments: &[String]) -> Result<Self, String> {
        let mut part = Self::spawn(program, "1", arguments)?;
        part.hello = part.line()?;
        Ok(part)
    }

    fn spawn(program: &Path, processors: &str, arguments: &[String]) -> Result<Self, String> {
        let mut child = Command::new("taskset")
            .args(["-c", processors])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a part without output")?;
        Ok(Self {
            child,
            output: BufReader::new(output),
            hello: String::new(),
        })
    }

    /// The part's first line.
    pub(crate) fn hello(&self) -> &str {
        &self.hello
    }

    /// Writes a line to the part.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("a part without input")?;
        input
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| error.to_string())
    }

    /// Memory of the part's process.
    pub(crate) fn memory(&self) -> Result<Memory, String> {
        Memory::of(self.child.id())
    }

    /// Makes what is resident now the peak.
    pub(crate) fn forget_peak(&self) -> Result<(), String> {
        memory::forget_peak(self.child.id())
    }

    /// User and system time that the part has used, in microseconds.
    pub(crate) fn cpu_micros(&mut self) -> Result<u64, String> {
        self.tell("cpu")?;
        let line = self.answer()?;
        line.parse().map_err(|_| format!("not a number: {line}"))
    }

    /// Reads the part's result and lets it end.
    pub(crate) fn finish<T: DeserializeOwned>(mut self) -> Result<T, String> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }

    /// What the part answers to the last line that it was told.
    pub(crate) fn answer(&mut self) -> Result<String, String> {
        self.line()
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        match line.trim() {
            "" => Err("a part ended without a word".to_owned()),
            line if line.starts_with("error: ") => Err(line.to_owned()),
            line => Ok(line.to_owned()),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It has nothing to save; whatever it is doing ends here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
