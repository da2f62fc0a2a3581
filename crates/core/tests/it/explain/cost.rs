//! Cost of explanations, counted and not timed.

use oxds_core::explain::RuleSet;

use super::{Made, leads, rpc};

/// Explains a request to the last of these routes. Returns the number of allocations, after the resources were read.
fn allocations(count: usize, rules: RuleSet) -> u64 {
    let route = |n| {
        format!(
            "routes {{ match {{ prefix: '/pkg.Service{n}/' headers {{ name: 'x' present_match: true }} }} route {{ cluster: 'c{n}' }} }}"
        )
    };
    let last = "routes { match { prefix: '' } route { cluster: 'last' } }";
    let routes: String = (0..count).map(route).chain([last.to_owned()]).collect();
    let mut explainer = Made::all(&routes).explainer();
    let request = rpc("/other/Get");
    explainer.explain(&request, &[rules]);
    let mut found = String::new();
    let info = allocation_counter::measure(|| {
        let explanation = explainer.explain(&request, &[rules]);
        found = leads(&explanation.answers[0].decision);
    });
    assert_eq!(found, "last");
    info.count_total
}

/// A route costs its step: a text for its condition, and one for the reason.
#[test]
fn route_costs_a_bounded_number_of_allocations() {
    for rules in [RuleSet::Grpc, RuleSet::Envoy] {
        let (few, many) = (allocations(1_000, rules), allocations(2_000, rules));
        let per_route = (many - few).div_ceil(1_000);
        assert!(
            per_route <= 8,
            "{rules:?}: {per_route} allocations per route"
        );
    }
}
