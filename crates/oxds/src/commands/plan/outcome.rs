//! Everything that a plan says.

use std::sync::Arc;

use oxds_core::preview::{Changes, Danger, Sending, State, sending};
use oxds_core::session;
use oxds_server::Finding;

use super::against::Against;
use super::clients::Clients;

/// Groups whose responses are determined: each takes a walk over all resources.
const MAX_GROUPS: usize = 20;

/// Everything that a plan says.
#[derive(Debug)]
pub(super) struct Plan {
    /// Source of the present state, for people.
    pub(super) against: String,
    pub(super) changes: Changes,
    /// The responses, for nodes in no group, then for those of each group with changes.
    pub(super) sendings: Vec<(Option<Arc<str>>, Sending)>,
    /// Number of groups with changes whose responses were not determined.
    pub(super) more_sendings: usize,
    pub(super) dangers: Vec<Danger>,
    pub(super) findings: Vec<Finding>,
    pub(super) clients: Option<Clients>,
    /// Groups of the folder that are not compared.
    pub(super) other_groups: Vec<String>,
}

impl Plan {
    pub(super) fn new(against: Against, mut findings: Vec<Finding>) -> Self {
        let Against { old, new, .. } = &against;
        let changes = Changes::between(old, new);
        let config = Arc::new(session::Config::default());
        // The nodes of a group may be all that changes.
        let groups = changes.groups().into_iter();
        let groups = groups.map(|group| (changes.keys(group.as_deref()), group));
        let groups: Vec<_> = groups.filter(|(keys, _)| !keys.is_empty()).collect();
        let more_sendings = groups.len().saturating_sub(MAX_GROUPS);
        let groups = groups.into_iter().take(MAX_GROUPS);
        let sendings = groups.map(|(keys, group)| {
            let (old, new) = (old.view(group.as_deref()), new.view(group.as_deref()));
            let sending = sending(&old, &new, &keys, &config);
            (group, sending)
        });
        let sendings: Vec<_> = sendings.collect();
        findings.retain(|finding| !is_resolved(finding, new));
        Self {
            sendings,
            more_sendings,
            dangers: Danger::of(old, new, &changes),
            changes,
            findings,
            clients: against.clients,
            against: against.name,
            other_groups: against.other_groups,
        }
    }
}

/// Returns whether a finding is about references that lead to something in the whole state: other lanes of etcd have
/// it.
fn is_resolved(finding: &Finding, new: &State) -> bool {
    let (Some(resource_type), Some(name)) = (&finding.resource_type, &finding.resource) else {
        return false;
    };
    let key = (resource_type.clone(), Arc::from(name.as_str()));
    let groups = new.groups.values().map(|group| &group.resources);
    let places = std::iter::once(&new.of_all_nodes).chain(groups);
    let holders = places.filter_map(|own| Some((own, own.get(&key)?)));
    let mut holders = holders.peekable();
    finding.rule == "dangling"
        && holders.peek().is_some()
        && holders.all(|(own, resource)| {
            resource.references().iter().all(|needed| {
                let target = (needed.resource_type.clone(), Arc::clone(&needed.name));
                own.contains_key(&target) || new.of_all_nodes.contains_key(&target)
            })
        })
}
