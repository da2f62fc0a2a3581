//! The memory that groups take (P-12). The test measures its process, so it runs alone, by name.

use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;
use oxds_server::Cache;
use oxds_types::discovery::Node;
use oxds_types::{Glob, ResourceType};

const GROUPS: usize = 2_000;
const RESOURCES: usize = 1_000;
const OWN: usize = RESOURCES / 100;
const BYTES: usize = 500;

/// Returns the resident memory of this process, in bytes.
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

/// Given 2,000 groups of 1,000 resources, 99 % of which are equal in all groups, and a client in each group, then they
/// take at most 1.5 times the unique bytes, plus 50 bytes for each resource of each group (P-12).
#[test]
#[ignore = "measures its process: cargo test -p oxds-server --test it p12 -- --ignored"]
fn p12_groups_share_the_memory_of_equal_resources() {
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
