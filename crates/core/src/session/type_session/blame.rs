//! Resources that a NACK means.
//!
//! xDS has no field for them. Envoy and gRPC write their names into the message of `error_detail`; without a name,
//! all resources of the response are suspects.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    cursor::Step,
    in_flight::{Item, SentContent, SentResponse},
    nacked::NackedState,
};
use crate::snapshot::Resource;

/// Length limit, in bytes, of the stored message of a NACK.
const MAX_REASON: usize = 4096;

/// Limit on suspects when the message names no resource. Of more, nothing is known.
const MAX_SUSPECTS: usize = 32;

/// Resources that a NACK means.
#[derive(Debug)]
pub(crate) struct Blame {
    pub(crate) resources: Vec<Arc<Resource>>,
    /// Exactly these were NACKed. Otherwise at least one of them, or an unknown resource, was.
    pub(crate) certain: bool,
}

impl Blame {
    /// Resources of a NACKed response that its message names; if it names none, all, unless they are too many.
    pub(crate) fn find(
        answered: &SentResponse,
        nacked: &BTreeMap<Arc<str>, NackedState>,
        is_delta: bool,
        reason: &str,
    ) -> Self {
        let mut suspects = Vec::new();
        let mut named = Vec::new();
        let mut consider = |resource: &Arc<Resource>| {
            if mentions(reason, resource.name()) {
                named.push(Arc::clone(resource));
            } else if suspects.len() <= MAX_SUSPECTS {
                suspects.push(Arc::clone(resource));
            }
        };
        // Content that is gone by now can be NACKed too.
        answered.kept.held.iter().for_each(&mut consider);
        let mut is_whole = true;
        if let SentContent::Whole { to, step, part, .. } = &answered.content {
            step.part(part, to).for_each(&mut consider);
            if !is_delta && matches!(step, Step::Since(_)) {
                // The rest of the full state was sent before; of that, only resources that were NACKed then are
                // suspects.
                is_whole = false;
                let before = nacked.keys().filter_map(|name| to.get(name));
                before
                    .filter(|resource| !step.has(resource.name()))
                    .for_each(&mut consider);
            }
        }
        let items = answered.content.items().iter();
        items.filter_map(Item::resource).for_each(consider);
        let certain = !named.is_empty() || is_whole && suspects.len() == 1;
        if named.is_empty() && suspects.len() <= MAX_SUSPECTS {
            named = suspects;
        }
        Self {
            resources: named,
            certain,
        }
    }
}

/// Whether `text` contains `name` as a word: neither `api-v2` nor `api.v2` mentions `api`, but `api` at the end of a
/// sentence does.
fn mentions(text: &str, name: &str) -> bool {
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            !continues_word(before.chars().rev()) && !continues_word(after.chars())
        })
}

/// Whether this text, read away from a name, continues it as a word.
fn continues_word(mut text: impl Iterator<Item = char>) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '|');
    match text.next() {
        Some('.') => text.next().is_some_and(joins),
        Some(next) => joins(next),
        None => false,
    }
}

/// The part of a NACK's message that is stored.
pub(crate) fn truncated(text: &str) -> &str {
    let mut end = text.len().min(MAX_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_mentioned_only_as_a_word() {
        let text = "Error adding/updating cluster(s) api-v2: field x, shop.cart: no endpoints";
        assert!(mentions(text, "api-v2") && mentions(text, "shop.cart"));
        assert!(!mentions(text, "api") && !mentions(text, "v2") && !mentions(text, ""));
        assert!(!mentions(text, "shop") && !mentions(text, "cart"));
        assert!(mentions("cannot use shop.", "shop"));
    }

    #[test]
    fn reason_is_cut_between_characters() {
        let long = "ä".repeat(MAX_REASON);
        let cut = truncated(&long);
        assert!(cut.len() <= MAX_REASON && cut.chars().all(|c| c == 'ä'));
    }
}
