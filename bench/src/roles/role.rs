//! Roles of the processes, with their arguments.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::processors::Processors;
use super::subject::{Holding, Layout, MeasuredPolicy, SecuredServer, Variant};
use super::traffic::Traffic;

/// Measured works of `oxds api`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ApiWork {
    /// Hashes of all files, after parsing.
    Hash,
    /// The next major, after parsing.
    NextMajor,
}

/// One part, with its parameters.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// An echo backend on a port that the system chooses, of all loopback addresses.
    Backend,
    /// A control plane over a folder, with a generated cluster of this many endpoints.
    Endpoints {
        folder: PathBuf,
        count: usize,
        layout: Layout,
        /// Port of the backend of all endpoints.
        first: u16,
        /// Port of the backend of those that have changed.
        changed: u16,
    },
    /// An `oxds-server` over a folder.
    ControlPlane { folder: PathBuf },
    /// An `oxds-server` with generated resources, which lines on its standard input change.
    Push {
        holding: Holding,
        count: usize,
        /// Node groups, each with a few resources of its own.
        groups: usize,
        /// Use mTLS with `server.pem`, `server.key` and `ca.pem` of this folder.
        keys: Option<PathBuf>,
    },
    /// Loads a folder until it is served, and reports the time.
    Load {
        folder: PathBuf,
        /// Look for deprecated and unfinished elements.
        check_life_cycle: bool,
    },
    /// Parses the YAML of a folder only.
    Parse { folder: PathBuf },
    /// Does one of the works of `oxds api` on the repository in a folder.
    Api { folder: PathBuf, work: ApiWork },
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
    /// Picks in a loop, without connections.
    Picks {
        policy: MeasuredPolicy,
        endpoints: usize,
        picks: u32,
    },
    /// A client that measures one variant of, S-R2 and S-R3.
    Client {
        variant: Variant,
        traffic: Traffic,
        /// Threads of the runtime; more than one share both processors.
        threads: usize,
        millis: u64,
        control_plane: String,
        backends: Vec<String>,
        /// Calls over mTLS with the keys of this folder.
        keys: Option<PathBuf>,
    },
    /// An echo server over mTLS with the keys of this folder (S-R1 to S-R3).
    Secured {
        server: SecuredServer,
        control_plane: String,
        keys: PathBuf,
    },
}

impl Role {
    /// Processors of a role, unless its scenario decides. The clients of have the scenario's,
    /// which waits for them, and their backends the other one.
    pub(super) fn processors(&self) -> Processors {
        match self {
            Role::Client { threads: 1, .. } => Processors::Beside,
            Role::Client { .. } | Role::Load { .. } | Role::Parse { .. } | Role::Api { .. } => {
                Processors::Both
            }
            _ => Processors::Alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_processes_have_a_processor_alone() {
        let calls = Role::Calls {
            variant: Variant::Oxds,
            rate: 1,
            bootstrap: String::new(),
        };
        let holder = Role::Holder {
            holding: Holding::Clusters,
            control_plane: String::new(),
        };
        for role in [calls, holder] {
            assert_eq!(role.processors(), Processors::Alone, "{role:?}");
        }
        assert_ne!(Processors::Alone.list(), Processors::Beside.list());
    }
}
