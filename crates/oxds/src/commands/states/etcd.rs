//! The state that is published in etcd, and the one after a publish.

use std::sync::Arc;

use oxds_core::preview::State;
use oxds_etcd::{Entry, Segment};
use oxds_server::store::etcd::writer::{self, Published, Session};
use tracing::error;

use crate::commands::args::etcd::EtcdTarget;
use crate::commands::runtime;
use crate::exit::Failure;

/// The part of the state that a publish replaces.
#[derive(Debug)]
pub(crate) struct Replacing<'a> {
    pub(crate) lane: &'a Segment,
    /// Whether entries of the lane that the folder does not have are removed.
    pub(crate) prune: bool,
}

/// Returns what is published, and what would be after a publish of `folder`.
///
/// # Errors
/// etcd does not answer, or keys cannot be read: then the difference would be wrong.
pub(crate) fn of_etcd(
    target: EtcdTarget,
    folder: &State,
    replacing: &Replacing<'_>,
) -> Result<(State, State), Failure> {
    let mut session = Session::new(target.endpoints, target.client);
    let read = writer::read(&mut session, &target.prefix);
    let lanes = runtime()?.block_on(read).map_err(Failure::negative)?;
    let old = state(&lanes, |_| true)?;
    let mut new = if replacing.prune {
        state(&lanes, |lane| lane != replacing.lane)?
    } else {
        old.clone()
    };
    new.of_all_nodes.extend(folder.of_all_nodes.clone());
    for (name, of_folder) in &folder.groups {
        let group = new.groups.entry(Arc::clone(name)).or_default();
        group.matcher = of_folder.matcher.clone().or(group.matcher.take());
        group.resources.extend(of_folder.resources.clone());
    }
    Ok((old, new))
}

fn state(lanes: &Published, is_wanted: impl Fn(&Segment) -> bool) -> Result<State, Failure> {
    let mut state = State::default();
    let mut unreadable = 0;
    for (name, lane) in lanes.iter().filter(|(name, _)| is_wanted(name)) {
        for (key, reason) in &lane.unreadable {
            error!("etcd:{key}: {reason}");
            unreadable += 1;
        }
        for (entry, stored) in &lane.entries {
            let added = match entry {
                Entry::Matcher(group) => stored.matcher().map(|matcher| {
                    let group = state.groups.entry(group.shared()).or_default();
                    group.matcher = Some(matcher);
                }),
                Entry::Resource(place) => stored.resource(place).map(|resource| {
                    let group = place.group.as_ref().map(Segment::shared);
                    state.put(group.as_ref(), Arc::new(resource));
                }),
            };
            if let Err(reason) = added {
                error!("etcd:l/{name}/{entry}: {reason}");
                unreadable += 1;
            }
        }
    }
    match unreadable {
        0 => Ok(state),
        count => Err(Failure::negative(format_args!(
            "{count} keys of etcd cannot be read: what would change is unknown"
        ))),
    }
}
