//! What groups take, measured: alone in its process, so that it is run by name only.

use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;
use oxds_server::Cache;
use oxds_types::discovery::Node;
use oxds_types::{Glob, ResourceType};

const GROUPS: usize = 2_000;
const RESOURCES: usize = 1_000;
const OWN: usize = RESOURCES / 100;
const BYTES: usize = 500;

/// What this process has in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn node(group: usize) -> Node {
    Node {
        cluster: format!("group-{group}"),
        ..Node::default()
    }
}

/// Given groups of a thousand resources each, of which 99 in 100 are the same in all, and a client in each; then they
/// take at most 1.5 times the unique bytes, and 50 bytes for each resource of each group (P-12).
#[test]
#[ignore = "measures its process: cargo test -p oxds-server --test it p12 -- --ignored"]
fn p12_groups_take_little_more_than_what_is_unique() {
    let make = |name: String| Resource::new(ResourceType::CLUSTER, name, &[7; BYTES]);
    let cache = Cache::new();
    cache.replace::<Resource>([]);
    let before = resident();
    for group in 0..GROUPS {
        let common = (OWN..RESOURCES).map(|i| make(format!("cluster-{i}")));
        let own = (0..OWN).map(|i| make(format!("cluster-{i}-of-{group}")));
        let matcher = NodeMatcher {
            cluster: Some(Glob::exact(&node(group).cluster)),
            ..NodeMatcher::default()
        };
        cache.replace_group(&node(group).cluster, matcher, common.chain(own));
    }
    let loaded = resident() - before;
    let seen: Vec<_> = (0..GROUPS)
        .map(|group| cache.snapshot_for(&node(group)))
        .collect();
    let taken = resident() - before;

    let unique = (RESOURCES - OWN + GROUPS * OWN) * BYTES;
    let pairs = GROUPS * RESOURCES;
    println!(
        "{} MB unique; {} MB in groups; {} MB with clients: {} bytes per pair beyond 1.5 times",
        unique >> 20,
        loaded >> 20,
        taken >> 20,
        taken.saturating_sub(unique * 3 / 2) / pairs
    );
    assert!(taken <= unique * 3 / 2 + 50 * pairs, "{taken}");
    assert!(
        seen.iter()
            .all(|seen| { seen.of_type(&ResourceType::CLUSTER).collection().len() == RESOURCES })
    );
}
