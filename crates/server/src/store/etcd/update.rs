//! Events of the follower as updates of the server.

use std::sync::Arc;

use oxds_core::group::GroupUpdate;
use oxds_core::rollout::RolloutPublish;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_etcd::follower::{FindingKind, FollowerFinding, FollowerUpdate, SavedState, encode_heads};
use oxds_etcd::{Entry, FormatError, Head, Key, Place, Segment};
use oxds_types::ResourceType;

use crate::store::LastGood;
use crate::store::finding::{Finding, FindingCounts};
use crate::store::update::{Origin, Update};

/// The name of this store in [`Origin::store`].
const STORE: &str = "etcd";

/// The findings at present. Every update carries them.
#[derive(Debug, Default)]
pub(super) struct Findings {
    listed: Vec<Finding>,
    more: usize,
}

impl Findings {
    /// Replaces the findings by those of the follower.
    pub(super) fn replace(&mut self, findings: &[FollowerFinding], more: usize) {
        self.listed = findings.iter().map(finding).collect();
        self.more = more;
    }

    /// Replaces the findings: the store has a format that this build does not read.
    pub(super) fn stop(&mut self, error: &FormatError) {
        let message = format!(
            "{error}; the last good state stays served and the store is not followed any more"
        );
        self.listed = vec![Finding::for_file(
            "etcd:format".as_ref(),
            "format",
            &message,
        )];
        self.more = 0;
    }

    /// Returns an update with these findings and no content.
    pub(super) fn update(&self) -> Update {
        Update {
            findings: self.listed.clone(),
            more_findings: FindingCounts {
                errors: self.more,
                warnings: 0,
            },
            origin: Origin::new(STORE),
            ..Update::default()
        }
    }
}

/// Returns the places that change, with their resources; `None` for those that are removed.
pub(super) fn resources<'a>(
    changes: &'a ChangeSet,
    groups: &'a [GroupUpdate],
) -> impl Iterator<Item = (Place, Option<Arc<Resource>>)> + 'a {
    let of_groups = groups.iter().filter_map(|group| {
        let name = Segment::group(&group.name).ok()?;
        Some((Some(name), &group.changes))
    });
    let scopes = std::iter::once((None, changes)).chain(of_groups);
    scopes.flat_map(|(group, changes)| {
        let place = move |resource_type: &ResourceType, name: &Arc<str>| Place {
            group: group.clone(),
            resource_type: resource_type.clone(),
            name: Arc::clone(name),
        };
        let removals = changes.removals.iter();
        let removals: Vec<_> = removals.map(|(of, name)| (place(of, name), None)).collect();
        // A resource in both is there afterwards (S-69), so it comes last.
        let upserts = changes.upserts.iter();
        let upserts = upserts.map(move |new| {
            let place = place(new.resource_type(), new.name());
            (place, Some(Arc::clone(new)))
        });
        removals.into_iter().chain(upserts)
    })
}

/// Returns a publish as the history shows it.
pub(super) fn publish(lane: &Segment, head: &Head) -> RolloutPublish {
    RolloutPublish {
        lane: lane.to_string(),
        seq: head.seq,
        by: head.by.clone(),
        note: head.note.clone(),
    }
}

/// Returns the update for a change of the served state, which is news of these publishes. It has the position in the
/// store if the server keeps its state.
pub(super) fn of(
    change: FollowerUpdate,
    findings: &Findings,
    news: Vec<RolloutPublish>,
    keeps_state: bool,
) -> Update {
    let mut update = findings.update();
    update.origin = update.origin.publishes(news);
    if let Ok(revision) = u64::try_from(change.revision) {
        update.origin = update.origin.revision(revision);
    }
    update.position = keeps_state.then(|| encode_heads(&change.heads).into());
    (update.changes, update.groups) = (change.changes, change.groups);
    update
}

fn finding(found: &FollowerFinding) -> Finding {
    let key = format!("etcd:{}", found.key);
    let mut finding = Finding::for_file(key.as_ref(), found.kind.rule(), &found.kind.to_string());
    // A change without a publish is no error of the resource that is served.
    if let (Key::Entry(_, Entry::Resource(place)), FindingKind::Invalid(_)) =
        (&found.key, &found.kind)
    {
        finding.resource_type = Some(place.resource_type.clone());
        finding.resource = Some(place.name.to_string());
    }
    finding
}

/// Returns the state of an earlier process, as the follower knows it; `None` if the position cannot be read.
///
/// A state without its secrets has its heads only: the first update of the follower is then the whole state, and
/// secrets that are gone are removed.
pub(super) fn saved(last_good: &LastGood) -> Option<SavedState> {
    let mut saved = SavedState::of_heads(last_good.position()?)?;
    if !last_good.lacks_secrets() {
        for (group, resource) in last_good.resources() {
            let place = Place {
                group: group.map(|group| Segment::group(group)).transpose().ok()?,
                resource_type: resource.resource_type().clone(),
                name: resource.name().clone(),
            };
            saved.resources.push((place, resource.clone()));
        }
        for (group, matcher) in last_good.groups() {
            let group = Segment::group(group).ok()?;
            saved.matchers.push((group, matcher.clone()));
        }
    }
    Some(saved)
}
