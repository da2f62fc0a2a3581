//! States of a configuration: of a folder, of a commit, of etcd, and as a control plane serves it to a node.

mod commit;
#[cfg(feature = "etcd")]
mod etcd;
mod folder;
mod served;
mod view;

use oxds_core::preview::State;
use oxds_server::{Finding, Severity};

pub(super) use commit::of_input;
#[cfg(feature = "etcd")]
pub(super) use etcd::{Replacing, of_etcd};
pub(super) use folder::read_folder;
pub(super) use served::of_control_plane;
pub(super) use view::seen_by;

/// A state, and what is wrong with its documents.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) state: State,
    pub(super) findings: Vec<Finding>,
    /// Number of errors, those that are not listed included.
    pub(super) errors: usize,
}

impl Loaded {
    /// Returns the first error.
    pub(super) fn first_error(&self) -> Option<&Finding> {
        let mut findings = self.findings.iter();
        findings.find(|finding| finding.severity == Severity::Error)
    }
}
