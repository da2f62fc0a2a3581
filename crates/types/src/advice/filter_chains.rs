//! Filter chains of a listener: matches that are equal, and a default chain that is never used.

use std::collections::HashMap;
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::listener::v3::{FilterChainMatch, Listener};

use super::report::{OnAdvice, report_at};
use crate::path::{FieldPath, Step};

/// Combinations of values that are compared. Listeners of more are not checked: a match of four lists with a hundred
/// values each has a hundred million.
const MAX_COMBINATIONS: usize = 100_000;

const RULE: &str = "filter-chain";

/// One value of each criterion, the criteria in the order of `combinations`. Empty: any.
type Combination = [String; 9];

/// Reports filter chains that clients reject since they match the same connections as another, and a default chain that
/// no connection reaches.
pub(super) fn check(listener: &Listener, path: &mut FieldPath, report: &mut OnAdvice<'_>) {
    // The matcher replaces the matches of the chains.
    if listener.filter_chain_matcher.is_some() {
        return;
    }
    let mut left = MAX_COMBINATIONS;
    let mut seen: HashMap<Combination, usize> = HashMap::new();
    for (index, chain) in listener.filter_chains.iter().enumerate() {
        let matches = chain.filter_chain_match.clone().unwrap_or_default();
        let criteria = criteria(&matches);
        let count = criteria
            .iter()
            .map(Vec::len)
            .try_fold(1, usize::checked_mul);
        let Some(rest) = count.and_then(|count| left.checked_sub(count)) else {
            return;
        };
        left = rest;
        let mut same = None;
        combinations(&criteria, &mut |combination| match seen.get(&combination) {
            Some(first) if *first != index => same = same.or(Some(*first)),
            Some(_) => {}
            None => drop(seen.insert(combination, index)),
        });
        if let Some(first) = same {
            let whole = is_equal(listener, first, &matches);
            let what = if whole {
                "the same"
            } else {
                "some of the same"
            };
            let text = format!(
                "matches {what} connections as filter_chains[{first}]: clients reject the listener"
            );
            let mut steps = vec![Step::Field("filter_chains"), Step::Index(index)];
            if chain.filter_chain_match.is_some() {
                steps.push(Step::Field("filter_chain_match"));
            }
            steps.iter().for_each(|step| path.push(step.clone()));
            report_at(path, [], RULE, text, report);
            steps.iter().for_each(|_| path.pop());
        }
    }
    if listener.default_filter_chain.is_some()
        && let Some(all) = catch_all(listener)
    {
        let text = format!("no connection reaches it, as filter_chains[{all}] matches all");
        let field = [Step::Field("default_filter_chain")];
        report_at(path, field, RULE, text, report);
    }
}

fn is_equal(listener: &Listener, first: usize, matches: &FilterChainMatch) -> bool {
    let first = listener.filter_chains.get(first);
    let first = first.and_then(|chain| chain.filter_chain_match.clone());
    criteria(&first.unwrap_or_default()) == criteria(matches)
}

/// Returns the chain that leaves nothing to the default chain. Envoy and gRPC choose by one criterion after the other
/// and never go back. So beside a chain without criteria, connections reach the default chain only if another chain has
/// two criteria, of which they meet the first alone.
fn catch_all(listener: &Listener) -> Option<usize> {
    let count = |matches: &Option<FilterChainMatch>| {
        let matches = matches.clone().unwrap_or_default();
        let is_set = |values: &&Vec<String>| values.iter().any(|value| !value.is_empty());
        criteria(&matches).iter().filter(is_set).count()
    };
    let counts = listener.filter_chains.iter();
    let counts: Vec<usize> = counts
        .map(|chain| count(&chain.filter_chain_match))
        .collect();
    let all = counts.iter().position(|count| *count == 0);
    all.filter(|_| counts.iter().all(|count| *count <= 1))
}

/// Returns the values of each criterion, at least one each, sorted.
fn criteria(matches: &FilterChainMatch) -> [Vec<String>; 9] {
    let port = matches.destination_port.as_ref();
    let source_type = match matches.source_type {
        0 => String::new(),
        other => other.to_string(),
    };
    let names = matches.server_names.iter();
    let ranges = |ranges: &[CidrRange]| ranges.iter().map(range).collect();
    let all = [
        port.map(|port| port.value.to_string())
            .into_iter()
            .collect(),
        ranges(&matches.prefix_ranges),
        names.map(|name| name.to_lowercase()).collect(),
        vec![matches.transport_protocol.clone()],
        matches.application_protocols.clone(),
        ranges(&matches.direct_source_prefix_ranges),
        vec![source_type],
        ranges(&matches.source_prefix_ranges),
        matches.source_ports.iter().map(u32::to_string).collect(),
    ];
    all.map(|mut values: Vec<String>| {
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            values.push(String::new());
        }
        values
    })
}

/// Returns a range as text, without the bits behind its length.
fn range(range: &CidrRange) -> String {
    let len = range.prefix_len.as_ref().map_or(0, |len| len.value);
    let masked = match range.address_prefix.parse() {
        Ok(IpAddr::V4(ip)) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(len));
            let mask = if len == 0 { 0 } else { mask.unwrap_or(0) };
            IpAddr::V4((u32::from(ip) & mask).into()).to_string()
        }
        Ok(IpAddr::V6(ip)) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(len));
            let mask = if len == 0 { 0 } else { mask.unwrap_or(0) };
            IpAddr::V6((u128::from(ip) & mask).into()).to_string()
        }
        Err(_) => range.address_prefix.clone(),
    };
    format!("{masked}/{len}")
}

/// Visits all combinations of one value per criterion.
fn combinations(criteria: &[Vec<String>; 9], visit: &mut dyn FnMut(Combination)) {
    let mut places = [0; 9];
    loop {
        visit(std::array::from_fn(|at| criteria[at][places[at]].clone()));
        let next = (0..9).find(|at| places[*at] + 1 < criteria[*at].len());
        let Some(next) = next else {
            return;
        };
        places[..next].fill(0);
        places[next] += 1;
    }
}
