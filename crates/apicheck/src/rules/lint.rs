//! The rules about one tree, in one call.

use super::collector::TreeFindings;
use super::packages::Policy;
use super::{dependencies, lifecycle, packages};
use crate::bump::Lock;
use crate::finding::Finding;
use crate::model::Tree;
use crate::rule::Profile;

/// Returns all violations in one tree, by rule group, in the order of the tree. `lock` has the
/// packages that are frozen without a status.
#[must_use]
pub fn lint(tree: &Tree, profile: Profile, policy: &Policy, lock: Option<&Lock>) -> Vec<Finding> {
    let mut report = TreeFindings::new(tree, profile);
    packages::find(&mut report, policy);
    dependencies::find(&mut report);
    lifecycle::find(&mut report, lock);
    report.findings
}

/// Returns packages that depend on two versions of one package (V-12), and nothing else.
#[must_use]
pub fn odr(tree: &Tree, profile: Profile) -> Vec<Finding> {
    let mut report = TreeFindings::new(tree, profile);
    dependencies::one_definition(&mut report);
    report.findings
}
