//! The rules about one tree, in one call.

use super::collector::TreeFindings;
use super::packages::Policy;
use super::{dependencies, lifecycle, packages};
use crate::finding::Finding;
use crate::model::Tree;
use crate::rule::Profile;

/// TreeFindingss all violations in one tree, by rule group, in the order of the tree.
#[must_use]
pub fn lint(tree: &Tree, profile: Profile, policy: &Policy) -> Vec<Finding> {
    let mut report = TreeFindings::new(tree, profile);
    packages::find(&mut report, policy);
    dependencies::find(&mut report);
    lifecycle::find(&mut report);
    report.findings
}

/// TreeFindingss packages that depend on two versions of one package (V-12), and nothing else.
#[must_use]
pub fn odr(tree: &Tree, profile: Profile) -> Vec<Finding> {
    let mut report = TreeFindings::new(tree, profile);
    dependencies::one_definition(&mut report);
    report.findings
}
