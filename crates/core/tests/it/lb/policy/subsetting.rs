//! C-253, gRFC A68: random subsetting.

use std::collections::BTreeSet;
use std::sync::Arc;

use oxds_core::lb::policy::{Policy, PolicyConfig, PolicyLocality};

use super::{endpoints_of, locality, randoms};

fn subset(size: u32, localities: &[PolicyLocality], seed: u64) -> BTreeSet<usize> {
    let config = PolicyConfig::RandomSubsetting {
        subset_size: size,
        inner: Arc::new(PolicyConfig::RoundRobin),
    };
    let policy = Policy::new(&config, localities, seed, &mut randoms());
    endpoints_of(&policy).concat().into_iter().collect()
}

#[test]
fn c253_subset_is_stable_and_differs_between_channels() {
    let localities = [locality(1, 1, &[1; 50]), locality(2, 1, &[1; 50])];
    let one = subset(10, &localities, 1);
    assert_eq!(one.len(), 10);
    assert_eq!(subset(10, &localities, 1), one);
    let subsets: BTreeSet<_> = (0..20).map(|seed| subset(10, &localities, seed)).collect();
    assert_eq!(subsets.len(), 20);
    // and all channels together use most endpoints
    let used: BTreeSet<_> = subsets.into_iter().flatten().collect();
    assert!(used.len() > 70, "{}", used.len());
}

#[test]
fn c253_removed_endpoint_is_replaced_by_one_other() {
    let before = [locality(1, 1, &[1; 50])];
    let old = subset(10, &before, 3);
    let removed = *old.first().unwrap();
    let mut after = before.clone();
    after[0].endpoints.remove(removed);
    // The endpoints behind the removed one have the index before theirs.
    let new: BTreeSet<_> = subset(10, &after, 3)
        .into_iter()
        .map(|index| if index >= removed { index + 1 } else { index })
        .collect();
    assert_eq!(old.intersection(&new).count(), 9);
}

#[test]
fn c253_small_priority_is_used_whole() {
    assert_eq!(subset(10, &[locality(1, 1, &[1; 3])], 1).len(), 3);
    assert_eq!(subset(10, &[], 1).len(), 0);
}
