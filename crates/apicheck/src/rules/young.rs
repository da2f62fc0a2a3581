//! Exemption of elements that are younger than two weeks and part of no release (V-35).

use jiff::civil::Date;
use jiff::{Span, ToSpan as _};

use crate::finding::Finding;
use crate::ledger::Ledger;
use crate::model::{Symbol, Tree};

/// Days in which an unreleased element may still change.
const YOUTH_DAYS: i64 = 14;

/// Returns the day whose tree decides: elements that this tree lacks are young. Returns `None` if
/// the ledger has no release, because the age of elements is then unknown.
#[must_use]
pub fn youth_cutoff(ledger: &Ledger, today: Date) -> Option<Date> {
    let made = ledger
        .releases
        .iter()
        .map(|release| release.date)
        .filter(|date| *date <= today);
    let days: Span = YOUTH_DAYS.days();
    let weeks_ago = today.checked_sub(days).ok()?;
    // The last release contains every element that existed on its day.
    made.max().map(|release| release.max(weeks_ago))
}

/// Exempts findings about elements that `then`, the tree on the day of [`youth_cutoff`], did not contain.
pub fn exempt_young(then: &Tree, findings: &mut [Finding]) {
    let changed = findings
        .iter_mut()
        .filter(|finding| finding.exempt.is_none() && finding.old.is_some());
    for finding in changed {
        // Stable-API policy: elements under two weeks that no release contains may still change
        // (V-35).
        if !has(then, finding.old_name()) {
            finding.exempt = Some("younger than 14 days and unreleased".to_owned());
        }
    }
}

/// Returns whether a tree has a declaration, a member, a file or a package of that name.
fn has(tree: &Tree, name: &str) -> bool {
    let member = || {
        let (owner, member) = name.rsplit_once('.')?;
        Some(match *tree.names.get(owner)? {
            Symbol::Message(id) => {
                let oneof = tree[id].oneofs.iter().any(|oneof| &*oneof.name == member);
                oneof || tree[id].field_by_name(member).is_some()
            }
            Symbol::Enum(id) => tree[id].values.iter().any(|value| &*value.name == member),
            Symbol::Service(id) => {
                let mut methods = tree[id].methods.iter();
                methods.any(|method| &*method.name == member)
            }
        })
    };
    tree.names.contains_key(name)
        || member() == Some(true)
        || tree.extensions.iter().any(|one| &*one.name == name)
        || tree.file(name).is_some()
        || tree.files.iter().any(|file| &*file.package == name)
}
