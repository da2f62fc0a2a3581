//! Grace period of a frozen major (V-14): for some months after the next stable major, it accepts
//! additions that the next major has, too.

use std::collections::HashSet;

use jiff::Span;
use jiff::civil::Date;

use super::versions::FROZEN_CHANGED;
use crate::finding::Finding;
use crate::generate::{StructuralDifference, structural_differences};
use crate::ledger::{Event, Ledger};
use crate::model::Tree;
use crate::package::{PackageName, Stage};
use crate::plan::Plan;
use crate::print::Printer;

/// Exempts findings about frozen packages during their grace period (`grace_months` of the ledger),
/// if all changes are additions that the next major contains as well.
pub fn exempt_in_grace_period(
    (old, new): (&Tree, &Tree),
    findings: &mut [Finding],
    ledger: &Ledger,
    today: Date,
) {
    let mut differences = None;
    let frozen = findings
        .iter_mut()
        .filter(|finding| *finding.rule == FROZEN_CHANGED && finding.exempt.is_none());
    for finding in frozen {
        let package = finding.element.clone();
        let Some((event, next)) = next_major(&package, ledger) else {
            continue;
        };
        let months = Span::new().try_months(ledger.grace_months);
        let end = months.and_then(|months| event.date.checked_add(months));
        let lasts = event.date <= today && end.is_ok_and(|end| today < end);
        if !lasts {
            continue;
        }
        let all = differences.get_or_insert_with(|| structural_differences(old, new));
        let own: Vec<_> = all
            .iter()
            .filter(|difference| lies_in(new, difference, &package))
            .collect();
        let is_in_both = |one: &&StructuralDifference| is_in_both(new, one, &package, next);
        // Stable-API policy: an addition must also be in the next major (V-14).
        if !own.is_empty() && own.iter().all(is_in_both) {
            finding.exempt = Some(format!("added to {next} as well, within the grace period"));
        }
    }
}

/// Returns the event that made the next major of a package stable, and that major.
fn next_major<'l>(package: &str, ledger: &'l Ledger) -> Option<(&'l Event, &'l str)> {
    let own = PackageName::of(package);
    let major = own.version?.major;
    let made = ledger.events.iter().flat_map(|event| {
        let majors = event.majors.iter();
        majors.map(move |name| (event, name.as_str()))
    });
    let later = made.filter_map(|(event, name)| {
        let other = PackageName::of(name);
        let version = other.version.filter(|version| {
            version.stage == Stage::Stable
                && version.major > major
                && other.family() == own.family()
        })?;
        Some((version.major, event, name))
    });
    let (_, event, name) = later.min_by_key(|(major, _, _)| *major)?;
    Some((event, name))
}

fn lies_in(tree: &Tree, difference: &StructuralDifference, package: &str) -> bool {
    let inside = difference
        .element
        .strip_prefix(package)
        .is_some_and(|rest| rest.starts_with('.'));
    // A package with a longer matching name owns the element instead.
    let longest = tree.files.iter().map(|file| &*file.package).filter(|name| {
        let rest = difference.element.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('.'))
    });
    inside && longest.max_by_key(|name| name.len()) == Some(package)
}

/// Returns whether an element lost nothing, and its counterpart in the next major has the added
/// lines.
fn is_in_both(tree: &Tree, difference: &StructuralDifference, package: &str, next: &str) -> bool {
    let twin = difference.element.replacen(package, next, 1);
    let plan = Plan::default();
    let text = Printer::new(tree, &plan)
        .element(&twin)
        .replace(next, package);
    let there: HashSet<&str> = text.lines().map(str::trim).collect();
    let mut added = difference.only_second.iter();
    difference.only_first.is_empty() && added.all(|line| there.contains(line.as_str()))
}
