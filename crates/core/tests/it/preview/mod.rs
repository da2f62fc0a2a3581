//! A change before it is served: what differs, in which order a client gets it, what is dangerous.

mod cost;
mod danger;
mod property;
mod sending;

use std::sync::Arc;

use oxds_core::group::{GroupUpdate, NodeMatcher};
use oxds_core::preview::{ChangeKind, Changes, Sending, State, Step, sending};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_types::{Glob, Reference, ResourceType};

const CDS: ResourceType = ResourceType::CLUSTER;
const EDS: ResourceType = ResourceType::ENDPOINT;
const SDS: ResourceType = ResourceType::SECRET;
const LDS: ResourceType = ResourceType::LISTENER;
const RDS: ResourceType = ResourceType::ROUTE;

/// Returns a resource from text such as `X=1`: its name, and a content.
fn resource(of: &ResourceType, text: &str, references: &[(ResourceType, &str)]) -> Arc<Resource> {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    let references: Vec<_> = references
        .iter()
        .map(|(resource_type, name)| Reference {
            resource_type: resource_type.clone(),
            name: Arc::from(*name),
        })
        .collect();
    let resource = Resource::new(of.clone(), name, text.as_bytes());
    Arc::new(resource.with_references(references))
}

fn state(resources: &[Arc<Resource>]) -> State {
    State::new(resources, &[])
}

/// A listener with its route, a cluster and its assignment.
fn shop() -> Vec<Arc<Resource>> {
    vec![
        resource(&LDS, "front=1", &[(RDS, "main")]),
        resource(&RDS, "main=1", &[(CDS, "X")]),
        resource(&CDS, "X=1", &[(EDS, "X")]),
        resource(&EDS, "X=1", &[]),
    ]
}

/// Replaces resources by equal names, and adds others.
fn with(mut base: Vec<Arc<Resource>>, more: Vec<Arc<Resource>>) -> Vec<Arc<Resource>> {
    let same = |a: &Arc<Resource>, b: &Arc<Resource>| {
        (a.resource_type(), a.name()) == (b.resource_type(), b.name())
    };
    base.retain(|old| !more.iter().any(|new| same(old, new)));
    base.extend(more);
    base
}

fn without(mut base: Vec<Arc<Resource>>, of: &ResourceType, name: &str) -> Vec<Arc<Resource>> {
    base.retain(|one| one.resource_type() != of || &**one.name() != name);
    base
}

fn sent(old: &[Arc<Resource>], new: &[Arc<Resource>]) -> Sending {
    let (old, new) = (state(old), state(new));
    let keys = Changes::between(&old, &new).keys(None);
    sending(&old.of_all_nodes, &new.of_all_nodes, &keys, &Arc::default())
}

/// Returns the steps as lines: `cds +Y ~X =Z -W after rds main`.
fn lines(sending: &Sending) -> Vec<String> {
    sending.steps.iter().map(line).collect()
}

fn line(step: &Step) -> String {
    let mut line = step.resource_type.to_string();
    for sent in &step.resources {
        let mark = match sent.change {
            Some(ChangeKind::Added) => '+',
            Some(_) => '~',
            None => '=',
        };
        line += &format!(" {mark}{}", sent.name);
    }
    for name in &step.removed {
        line += &format!(" -{name}");
    }
    for why in &step.after {
        let name = why.name.as_deref().unwrap_or("all");
        let overdue = if why.overdue { " overdue" } else { "" };
        line += &format!(" after {} {name}{overdue}", why.resource_type);
    }
    line
}

fn group(name: &str, id: &str, resources: &[Arc<Resource>]) -> GroupUpdate {
    let matcher = NodeMatcher {
        id: Some(Glob::new(id)),
        ..NodeMatcher::default()
    };
    let changes: ChangeSet = resources.iter().map(Arc::clone).collect();
    GroupUpdate::new(name, matcher, changes)
}

/// Given states with groups, then each change has its group, type and kind, and the nodes of a group are a change of
/// their own.
#[test]
fn g13_changes_are_listed_by_group_and_type() {
    let old = State::new(
        &shop(),
        &[group("edge", "edge-*", &[resource(&CDS, "X=2", &[])])],
    );
    let changed = with(
        without(shop(), &EDS, "X"),
        vec![resource(&CDS, "N=1", &[]), resource(&RDS, "main=2", &[])],
    );
    let new = State::new(
        &changed,
        &[
            group("edge", "e-*", &[resource(&CDS, "X=3", &[])]),
            group("new", "n", &[]),
        ],
    );
    let changes = Changes::between(&old, &new);
    let text: Vec<_> = changes
        .0
        .iter()
        .map(|change| {
            let group = change.group.as_deref().unwrap_or("-");
            let of = change.resource_type.as_ref();
            let of = of.map_or_else(|| "nodes".to_owned(), ToString::to_string);
            format!("{group} {of} {} {:?}", change.name, change.kind())
        })
        .collect();
    assert_eq!(
        text,
        [
            "- cds N Added",
            "- eds X Removed",
            "- rds main Changed",
            "edge nodes edge Changed",
            "edge cds X Changed",
            "new nodes new Added",
        ]
    );
    let counts = changes.counts();
    assert_eq!((counts.added, counts.changed, counts.removed), (2, 3, 1));
    assert!(Changes::between(&old, &old.clone()).is_empty());
    let view = new.view(Some("edge"));
    assert_eq!(view.len(), changed.len());
    assert_eq!(view[&(CDS, "X".into())].value(), "X=3");
}
