//! The release audit (V-60): unstable elements with their age, deprecated elements with their
//! phase, packages that depend on two versions of one package, and types that need the next major.

use std::collections::BTreeMap;

use jiff::civil::Date;

use crate::clock::{self, Deprecation, Schedule};
use crate::experiment::{Experiment, experiments};
use crate::finding::Finding;
use crate::generate::{self, UpgradeReason};
use crate::ledger::Ledger;
use crate::model::{Name, Tree};
use crate::rule::Profile;
use crate::rules;

/// Result of an audit.
#[derive(Debug)]
#[non_exhaustive]
pub struct Audit {
    /// Unstable elements, with their age.
    pub experimental: Vec<Experiment>,
    /// Deprecated elements, with their phase.
    pub deprecated: Vec<Deprecation>,
    /// Packages that depend on two versions of one package.
    pub two_versions: Vec<Finding>,
    /// Types that need the next major, with the reason.
    pub pending: BTreeMap<Name, UpgradeReason>,
}

/// Returns the audit of a tree. Missing version bumps need an older tree, too: see [`crate::bump`].
#[must_use]
pub fn audit(tree: &Tree, ledger: &Ledger, schedule: Schedule, today: Date) -> Audit {
    Audit {
        experimental: experiments(tree, ledger, today),
        deprecated: clock::clock(tree, ledger, schedule, today),
        two_versions: rules::odr(tree, Profile::Policy),
        pending: generate::pending(tree),
    }
}
