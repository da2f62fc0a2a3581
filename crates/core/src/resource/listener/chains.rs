//! Filter chains of a listener, and the table that finds the one of a connection.
//!
//! ```text
//!  connection ─► destination ─► source type ─► source ─► source port ─► chain
//!                longest prefix                 longest    or any port
//!                                               prefix
//! ```
//! Each step keeps only the most specific match. If a later step fails, no other match of an earlier one is tried, and
//! the default chain is used (Envoy's rule, gRFC A36).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::chain::FilterChain;
use super::matching::{ChainMatch, RAW_BUFFER, Rule, SourceType};
use crate::resource::Invalid;
use crate::resource::cidr::Cidr;

/// Most combinations of matching rules in one listener. Each takes some hundred bytes while the listener is read, and
/// the lists of a few chains could multiply to billions.
const MAX_RULES: usize = 1 << 18;

/// Filter chains of a listener.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterChains {
    /// Chains in the order of the resource, then the default chain.
    chains: Vec<Arc<FilterChain>>,
    has_default: bool,
    table: ByPrefix<BySource>,
}

/// Values by range of addresses.
#[derive(Debug, Clone, PartialEq)]
struct ByPrefix<V> {
    /// Value without a range.
    any: Option<V>,
    ranges: BTreeMap<Cidr, V>,
    /// Lengths of the ranges of IPv4 and of IPv6, without repetition, the greatest first.
    lengths: [Vec<u8>; 2],
}

/// Chains by source type; indexed by [`SourceType`].
#[derive(Debug, Clone, PartialEq, Default)]
struct BySource([ByPrefix<ByPort>; 3]);

/// Chains by source port.
#[derive(Debug, Clone, PartialEq, Default)]
struct ByPort {
    any: Option<usize>,
    ports: BTreeMap<u16, usize>,
}

impl FilterChains {
    pub(super) fn new(
        mut chains: Vec<Arc<FilterChain>>,
        matches: &[ChainMatch],
        default: Option<Arc<FilterChain>>,
    ) -> Result<Self, Invalid> {
        let table = table(&chains, matches)?;
        let has_default = default.is_some();
        if table.is_empty() && !has_default {
            let rule = if chains.is_empty() {
                "must not be empty, or there must be a default_filter_chain"
            } else {
                "must have one that can match, or there must be a default_filter_chain"
            };
            return Err(Invalid::new(rule).at("filter_chains"));
        }
        chains.extend(default);
        Ok(Self {
            chains,
            has_default,
            table,
        })
    }

    /// Returns all chains in the order of the resource. The default chain is the last one.
    #[must_use]
    pub fn all(&self) -> &[Arc<FilterChain>] {
        &self.chains
    }

    /// Returns the index in [`all`](Self::all) of the chain for a connection, or `None` if no chain matches it.
    ///
    /// Costs one look-up in a tree for each length of prefix in use, and no allocation.
    #[must_use]
    pub fn of_connection(&self, destination: IpAddr, source: SocketAddr) -> Option<usize> {
        let default = self.chains.len().checked_sub(1);
        self.matching(destination.to_canonical(), source)
            .or(default.filter(|_| self.has_default))
    }

    fn matching(&self, destination: IpAddr, source: SocketAddr) -> Option<usize> {
        let address = source.ip().to_canonical();
        let source_type = if address == destination || address.is_loopback() {
            SourceType::Local
        } else {
            SourceType::External
        };
        let sources = self.table.longest(destination)?.of(source_type)?;
        sources.longest(address)?.of(source.port())
    }
}

/// Makes the table. Two chains that match the same connections equally well make the listener invalid (gRFC A36).
fn table(
    chains: &[Arc<FilterChain>],
    matches: &[ChainMatch],
) -> Result<ByPrefix<BySource>, Invalid> {
    let add = |sum: usize, one: &ChainMatch| sum.checked_add(one.count()?);
    let count = matches.iter().try_fold(0_usize, add);
    let Some(count) = count.filter(|count| *count <= MAX_RULES) else {
        let rule = format!("must have at most {MAX_RULES} combinations of matching rules");
        return Err(Invalid::new(rule).at("filter_chains"));
    };
    let mut owners: HashMap<Rule<'_>, usize> = HashMap::with_capacity(count);
    let mut with_protocol = BTreeSet::new();
    for (index, chain) in matches.iter().enumerate() {
        for rule in chain.rules() {
            // gRFC A36: rules that never match are checked, too.
            if let Some(first) = owners.insert(rule, index) {
                let invalid = duplicate(chains, first, index).at("filter_chain_match");
                return Err(invalid.at_index("filter_chains", index));
            }
            if rule.reaches_transport() && rule.transport_protocol == RAW_BUFFER {
                with_protocol.insert(rule.destination);
            }
        }
    }
    let mut table = ByPrefix::<BySource>::default();
    for (index, chain) in matches.iter().enumerate() {
        // gRFC A36: rules that never match may be left out.
        for rule in chain.rules().filter(Rule::can_match) {
            // A rule for the protocol is more specific than one for any, before the source is looked at.
            let is_shadowed =
                rule.transport_protocol.is_empty() && with_protocol.contains(&rule.destination);
            if !is_shadowed {
                let sources = &mut table.entry(rule.destination).0[rule.source_type as usize];
                sources.entry(rule.source).insert(rule.source_port, index);
            }
        }
    }
    Ok(table)
}

/// Returns the error of a chain that has a rule of the chain `first`, with the names of both if they have any.
fn duplicate(chains: &[Arc<FilterChain>], first: usize, index: usize) -> Invalid {
    if first == index {
        return Invalid::new("must not repeat a combination of its values");
    }
    let name = |index: usize| chains.get(index).map_or("", |chain| &*chain.name);
    let names = match (name(index), name(first)) {
        ("", "") => String::new(),
        (own, other) => format!(" (chains {own:?} and {other:?})"),
    };
    Invalid::new(format!(
        "must not match the same as filter_chains[{first}]{names}"
    ))
}

impl<V> Default for ByPrefix<V> {
    fn default() -> Self {
        Self {
            any: None,
            ranges: BTreeMap::new(),
            lengths: Default::default(),
        }
    }
}

impl<V> ByPrefix<V> {
    fn is_empty(&self) -> bool {
        self.any.is_none() && self.ranges.is_empty()
    }

    /// Returns the value of the smallest range that has the address, else the value without a range.
    fn longest(&self, address: IpAddr) -> Option<&V> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let found = lengths.iter().find_map(|length| {
            let range = Cidr::new(address, *length)?;
            self.ranges.get(&range)
        });
        found.or(self.any.as_ref())
    }
}

impl<V: Default> ByPrefix<V> {
    fn entry(&mut self, range: Option<Cidr>) -> &mut V {
        let Some(range) = range else {
            return self.any.get_or_insert_default();
        };
        let lengths = &mut self.lengths[usize::from(range.network().is_ipv6())];
        if let Err(place) = lengths.binary_search_by(|known| range.length().cmp(known)) {
            lengths.insert(place, range.length());
        }
        self.ranges.entry(range).or_default()
    }
}

impl BySource {
    /// Returns the chains for a source type, else those for any.
    fn of(&self, source_type: SourceType) -> Option<&ByPrefix<ByPort>> {
        let candidates = [source_type, SourceType::Any];
        let mut candidates = candidates.into_iter().map(|one| &self.0[one as usize]);
        candidates.find(|chains| !chains.is_empty())
    }
}

impl ByPort {
    fn of(&self, port: u16) -> Option<usize> {
        self.ports.get(&port).copied().or(self.any)
    }

    fn insert(&mut self, port: Option<u16>, chain: usize) {
        match port {
            Some(port) => {
                self.ports.insert(port, chain);
            }
            None => self.any = Some(chain),
        }
    }
}
