//! The fleet view of deprecated elements: where resources use them, and the clients that have these resources.
//!
//! `/deprecations.json` and `oxds deprecations` show it. Fields are added, never renamed or removed.

use std::collections::{BTreeMap, BTreeSet};

use oxds_types::ResourceType;
use oxds_types::lifecycle::{Cause, Element, Part, Replacement, Verdict};
use serde::{Deserialize, Serialize};

use crate::store::{DeprecatedUses, PlacedUse};

/// Places that are listed per element.
const MAX_PLACES: usize = 100;
/// Node ids that are listed per version of a client.
const MAX_IDS: usize = 10;

/// Deprecated elements that resources use, with their clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Deprecations {
    /// Elements that are disallowed first, then by name.
    pub elements: Vec<DeprecatedElement>,
}

/// A deprecated element that resources use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeprecatedElement {
    /// Full name; an enum value has the name of its enum before it.
    pub element: String,
    /// `field` or `value`.
    pub part: String,
    /// `warned` or `disallowed`: the phase by annotations and clock, without the runtime.
    pub phase: String,
    /// `warned`, `overridden` (allowed by the runtime) or `disallowed` (the files are not served).
    pub verdict: String,
    /// `phase` or `runtime`: why it is disallowed.
    pub cause: Option<String>,
    /// First day of the deprecation, or the API version: `2027-03-31`, `API 3.0`.
    pub since: Option<String>,
    /// First day of the next phase, if the clock has it.
    pub until: Option<String>,
    /// Full name of the replacement.
    pub replacement: Option<String>,
    /// Why it has no replacement.
    pub no_replacement: Option<String>,
    /// Runtime key that allows or disallows it.
    pub runtime_key: String,
    /// Number of uses.
    pub uses: usize,
    /// Places of the uses, one per resource; at most 100.
    pub places: Vec<FirstUse>,
    /// Resources that are not listed.
    pub more_places: usize,
    /// Clients that have one of the resources, by name and version; `None` without a server.
    pub clients: Option<Vec<ClientVersion>>,
}

/// The first use of an element in a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FirstUse {
    /// File or key.
    pub file: String,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// Short name of the resource type: `cds`.
    #[serde(rename = "type")]
    pub resource_type: Option<String>,
    /// Name of the resource.
    pub resource: Option<String>,
    /// Path to the field.
    pub path: String,
    /// Number of uses in the resource.
    pub uses: usize,
}

/// Clients of one name and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientVersion {
    /// Name and version: `envoy 1.40.0`; empty if the clients do not send it.
    pub user_agent: String,
    /// Number of clients.
    pub nodes: usize,
    /// Node ids; at most ten.
    pub ids: Vec<String>,
}

impl Deprecations {
    /// Groups the uses of all documents by element. The clients are left out.
    #[must_use]
    pub fn of(uses: &DeprecatedUses) -> Self {
        let mut elements: BTreeMap<&str, DeprecatedElement> = BTreeMap::new();
        for (document, use_) in uses
            .documents()
            .flat_map(|(id, uses)| uses.iter().map(move |one| (id, one)))
        {
            let name = use_.used.element.name();
            let element = elements
                .entry(name)
                .or_insert_with(|| DeprecatedElement::of(use_));
            element.uses += use_.count;
            if element.places.len() < MAX_PLACES {
                element.places.push(FirstUse {
                    file: document.display().to_string(),
                    line: use_.position.map(|at| at.line),
                    column: use_.position.map(|at| at.column),
                    resource_type: use_.resource_type.as_ref().map(ToString::to_string),
                    resource: use_.resource.clone(),
                    path: use_.path.clone(),
                    uses: use_.count,
                });
            } else {
                element.more_places += 1;
            }
        }
        let mut elements: Vec<_> = elements.into_values().collect();
        elements.sort_by_key(|element| (!element.is_disallowed(), element.phase != "disallowed"));
        Self { elements }
    }
}

impl DeprecatedElement {
    fn of(use_: &PlacedUse) -> Self {
        let used = &use_.used;
        let element: &Element = used.element;
        let (replacement, no_replacement) = match used.replacement() {
            Some(Replacement::Element(new)) => (Some(new.to_owned()), None),
            Some(Replacement::None(reason)) => (None, Some(reason.to_owned())),
            None => (None, None),
        };
        let cause = match used.decision.verdict {
            Verdict::Disallowed(Cause::Phase) => Some("phase".to_owned()),
            Verdict::Disallowed(Cause::Runtime) => Some("runtime".to_owned()),
            _ => None,
        };
        Self {
            element: element.name().to_owned(),
            part: match element.part() {
                Part::Field => "field".to_owned(),
                Part::EnumValue => "value".to_owned(),
            },
            phase: used.decision.phase.as_str().to_owned(),
            verdict: used.decision.verdict.as_str().to_owned(),
            cause,
            since: used.since(),
            until: used.until().map(str::to_owned),
            replacement,
            no_replacement,
            runtime_key: element.runtime_key().to_owned(),
            uses: 0,
            places: Vec::new(),
            more_places: 0,
            clients: None,
        }
    }

    /// Whether files that use it are not served.
    #[must_use]
    pub fn is_disallowed(&self) -> bool {
        self.verdict == "disallowed"
    }
}

/// Finds the clients that have resources with deprecated elements.
#[derive(Debug)]
pub(crate) struct ClientSearch {
    deprecations: Deprecations,
    /// Resources of each element, without duplicates.
    resources: Vec<BTreeSet<(ResourceType, String)>>,
    found: Vec<BTreeMap<String, ClientVersion>>,
}

impl ClientSearch {
    /// Resources per element that are looked up at each client.
    const MAX_RESOURCES: usize = 1_000;

    pub(crate) fn new(uses: &DeprecatedUses) -> Self {
        let deprecations = Deprecations::of(uses);
        let index: BTreeMap<&str, usize> = deprecations
            .elements
            .iter()
            .enumerate()
            .map(|(index, element)| (element.element.as_str(), index))
            .collect();
        let mut resources = vec![BTreeSet::new(); deprecations.elements.len()];
        for use_ in uses.documents().flat_map(|(_, uses)| uses) {
            let Some(set) = index
                .get(use_.used.element.name())
                .and_then(|index| resources.get_mut(*index))
            else {
                continue;
            };
            if let (Some(resource_type), Some(name), true) = (
                &use_.resource_type,
                &use_.resource,
                set.len() < Self::MAX_RESOURCES,
            ) {
                set.insert((resource_type.clone(), name.clone()));
            }
        }
        let found = vec![BTreeMap::new(); deprecations.elements.len()];
        Self {
            deprecations,
            resources,
            found,
        }
    }

    /// Looks at a client. `has` returns whether the client has a resource.
    pub(crate) fn see(
        &mut self,
        id: &str,
        user_agent: &str,
        has: impl Fn(&ResourceType, &str) -> bool,
    ) {
        for (resources, found) in self.resources.iter().zip(&mut self.found) {
            if !resources.iter().any(|(of, name)| has(of, name)) {
                continue;
            }
            let version = found
                .entry(user_agent.to_owned())
                .or_insert_with(|| ClientVersion {
                    user_agent: user_agent.to_owned(),
                    nodes: 0,
                    ids: Vec::new(),
                });
            version.nodes += 1;
            if version.ids.len() < MAX_IDS {
                version.ids.push(id.to_owned());
            }
        }
    }

    pub(crate) fn finish(mut self) -> Deprecations {
        for (element, found) in self.deprecations.elements.iter_mut().zip(self.found) {
            element.clients = Some(found.into_values().collect());
        }
        self.deprecations
    }
}
