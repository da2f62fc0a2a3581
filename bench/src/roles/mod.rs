//! Parts of a scenario that run in processes of their own.
//!
//! A part is this program started again, with its [`Role`] in JSON. Its first line of output is its *hello* (usually
//! the address it bound); a part that measures prints its result as a line of JSON and ends. Parts that
//! serve end when their standard input closes, so that none outlives the run.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

mod part;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::part::Part;
use crate::api::{self, Work};
use crate::control;
use crate::push::{self, Holding};
use crate::rpc::{self, Variant};
use crate::{load, serve};

/// One part, with what it needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// An echo backend on a port that the system chooses.
    Backend,
    /// An `oxds-server` over a folder.
    ControlPlane { folder: PathBuf },
    /// An `oxds-server` with generated resources, which lines on its standard input change.
    Push {
        holding: Holding,
        count: usize,
        /// Node groups, each of which has a few of its own resources.
        groups: usize,
        /// Use mTLS with `server.pem`, `server.key` and `ca.pem` of this folder.
        keys: Option<PathBuf>,
    },
    /// Loads a folder until it is served, and reports the time.
    Load { folder: PathBuf },
    /// Parses the YAML of a folder only.
    Parse { folder: PathBuf },
    /// Does one of the works of `oxds api` on the repository in a folder.
    Api { folder: PathBuf, work: Work },
    /// A client that calls at a rate.
    Calls {
        variant: Variant,
        rate: u32,
        bootstrap: String,
    },
    /// A client that caches all resources of a control plane, and answers lines of its standard input.
    Holder {
        holding: Holding,
        control_plane: String,
    },
    /// A client that measures one variant of R-1.
    Client {
        variant: Variant,
        in_flight: usize,
        millis: u64,
        control_plane: String,
        backends: Vec<String>,
    },
}

impl Role {
    /// Processors of a role: a client has its own, servers share the other, and loading is measured on all of them.
    fn processors(&self) -> &'static str {
        match self {
            Role::Client { .. } | Role::Holder { .. } => "0",
            Role::Load { .. } | Role::Parse { .. } | Role::Api { .. } => "0,1",
            _ => "1",
        }
    }

    /// Runs the role that this JSON describes, in this process.
    pub(crate) fn play(json: &str) -> ExitCode {
        let role = serde_json::from_str::<Self>(json).map_err(|error| error.to_string());
        match role.and_then(Self::run) {
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

fn result(measured: &impl Serialize) -> Result<(), String> {
    println!(
        "{}",
        serde_json::to_string(measured).map_err(|error| error.to_string())?
    );
    Ok(())
}
