//! The part of two states that decides about the order of a change: with a hundred thousand resources, a simulation of
//! all of them would be slow, and would show the same.
//!
//! A change waits for what it refers to, and for what refers to it. What is far from all changes is at the client
//! before and after.

use std::collections::{BTreeSet, HashMap};

use super::state::Resources;
use crate::snapshot::ResourceKey;

/// Returns the changed resources, all that lead to them, and all that they lead to, in the old state or in the new one.
pub(super) fn relevant(
    old: &Resources,
    new: &Resources,
    changed: &BTreeSet<ResourceKey>,
) -> BTreeSet<ResourceKey> {
    let mut referrers: HashMap<ResourceKey, Vec<&ResourceKey>> = HashMap::new();
    for (key, resource) in old.iter().chain(new) {
        for needed in resource.references() {
            let target = (needed.resource_type.clone(), needed.name.clone());
            referrers.entry(target).or_default().push(key);
        }
    }
    let up = reach(changed, |key| {
        let of_key = referrers.get(key).into_iter().flatten();
        of_key.map(|key| (*key).clone()).collect()
    });
    let down = reach(changed, |key| {
        let versions = [old.get(key), new.get(key)].into_iter().flatten();
        let needed = versions.flat_map(|resource| resource.references());
        needed
            .map(|one| (one.resource_type.clone(), one.name.clone()))
            .collect()
    });
    up.into_iter().chain(down).collect()
}

fn reach(
    from: &BTreeSet<ResourceKey>,
    next: impl Fn(&ResourceKey) -> Vec<ResourceKey>,
) -> BTreeSet<ResourceKey> {
    let mut found = from.clone();
    let mut open: Vec<ResourceKey> = from.iter().cloned().collect();
    while let Some(key) = open.pop() {
        for key in next(&key) {
            if found.insert(key.clone()) {
                open.push(key);
            }
        }
    }
    found
}
