//! Cost of a plan, counted and not timed: what is equal in both states is neither decoded nor copied.

use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use oxds_core::preview::{Changes, Danger, State, sending};
use oxds_core::snapshot::Resource;

use super::{CDS, EDS, Reference, resource, state};

/// Bytes of each content.
const CONTENT: usize = 4_096;

/// A cluster, and its assignment, with large contents. `generation` is a part of the content of the cluster.
fn pair(number: usize, generation: usize) -> [Arc<Resource>; 2] {
    let name = format!("c{number}");
    let content = |first: &str| {
        let mut content = first.as_bytes().to_vec();
        content.resize(CONTENT, b'x');
        content
    };
    let cluster = Resource::new(
        CDS,
        name.as_str(),
        &content(&format!("{name} {generation}")),
    );
    let assignment = Reference {
        resource_type: EDS,
        name: Arc::from(name.as_str()),
    };
    [
        Arc::new(cluster.with_references(vec![assignment])),
        Arc::new(Resource::new(EDS, name.as_str(), &content(&name))),
    ]
}

/// Two states of this many resources, of which the first differs. As after a fetch, equal resources are not the same
/// ones.
fn states(resources: usize) -> [State; 2] {
    [0, 1].map(|generation| {
        let pairs = (0..resources / 2).flat_map(|number| {
            let generation = if number == 0 { generation } else { 0 };
            pair(number, generation)
        });
        state(&pairs.collect::<Vec<_>>())
    })
}

/// The cost of the comparison, and of all that a plan says.
fn cost(resources: usize) -> [AllocationInfo; 2] {
    let [old, new] = states(resources);
    let mut changes = Changes::default();
    let compared = measure(|| changes = Changes::between(&old, &new));
    let names: Vec<_> = changes.0.iter().map(|change| &*change.name).collect();
    assert_eq!(names, ["c0"]);
    let mut said = (0, 0);
    let planned = measure(|| {
        let keys = changes.keys(None);
        let sending = sending(&old.of_all_nodes, &new.of_all_nodes, &keys, &Arc::default());
        let sent = sending.steps.iter().map(|step| step.resources.len());
        said = (sent.sum(), Danger::of(&old, &new, &changes).len());
    });
    // The cluster, and its assignment, for which Envoy asks again.
    assert!(said.0 <= 2 && said.1 == 0, "{said:?}");
    [compared, planned]
}

#[test]
fn plan_of_one_in_10_000_opens_only_what_changed() {
    let [few, all_of_few] = cost(1_000);
    let [many, all_of_many] = cost(10_000);
    assert_eq!(
        many.count_total, few.count_total,
        "equal resources cost the comparison no allocation"
    );
    let more = all_of_many.bytes_total - all_of_few.bytes_total;
    let per_resource = more / 9_000;
    assert!(
        per_resource < CONTENT as u64 / 8,
        "{per_resource} bytes for each equal resource of {CONTENT}"
    );
}

/// A test that cannot fail is a defect: a change of all resources costs more.
#[test]
fn plan_of_many_changes_costs_more() {
    let [old, _] = states(1_000);
    let other = resource(&CDS, "c9=1", &[]);
    let new = state(&[other]);
    let one = cost(1_000)[0].count_total;
    let all = measure(|| drop(Changes::between(&old, &new))).count_total;
    assert!(all > one, "{all} and {one}");
}
