//! Plan of one response: the decision what it carries, before anything is encoded.
//!
//! A response has a base, which is encoded once and shared with other streams, and items of this stream besides.
//!
//! | client, protocol        | base                          | items                                     |
//! |-------------------------|-------------------------------|-------------------------------------------|
//! | wildcard, SotW          | full state but for NACKed names | copies in use, held removals            |
//! | wildcard, delta         | changes since the cursor      | held removals that end, due names         |
//! | by name, LDS and CDS, SotW | none                       | all subscribed names                      |
//! | by name, otherwise      | none                          | due names                                 |

use std::sync::Arc;

use oxds_types::{Fingerprint, Version};

use super::{
    client::ClientState,
    in_flight::{Items, KeptCopies},
    item::Item,
    step::Step,
};
use crate::{
    snapshot::{Resource, ResourceSet},
    subscription::{Sent, SubscribedName},
};

/// Content of the next response.
#[derive(Debug)]
pub(crate) struct ResponsePlan {
    pub(crate) base: Base,
    pub(crate) items: Items,
    pub(crate) version: Version,
    pub(crate) kept: KeptCopies,
    /// Assignments to send again, since their clusters change with this response (S-54).
    pub(crate) assignments: Vec<Arc<str>>,
    /// The response is sent even if it is empty.
    pub(crate) is_due: bool,
}

impl ResponsePlan {
    /// Plan of a response that shares nothing.
    pub(crate) fn of_items(items: Items, version: Version, is_due: bool) -> Self {
        Self {
            base: Base::None,
            items,
            version,
            kept: KeptCopies::default(),
            assignments: Vec::new(),
            is_due,
        }
    }
}

/// Shared part of a response.
#[derive(Debug)]
pub(crate) enum Base {
    /// By name: nothing is shared but the encoded resources.
    None,
    /// SotW: all resources but these NACKed ones.
    FullState { without: Vec<Arc<str>>, step: Step },
    /// Delta: a step. Its removals are shared, unless some of them are held for this client.
    Step { step: Step, shares_removals: bool },
}

impl Base {
    /// The step that a response to a wildcard takes.
    pub(crate) fn step(&self) -> Option<&Step> {
        match self {
            Self::None => None,
            Self::FullState { step, .. } | Self::Step { step, .. } => Some(step),
        }
    }

    pub(crate) fn into_step(self) -> Option<Step> {
        match self {
            Self::None => None,
            Self::FullState { step, .. } | Self::Step { step, .. } => Some(step),
        }
    }
}

/// Action for a due name.
#[derive(Debug)]
pub(crate) enum Verdict<'a> {
    /// None: the client was sent the current state.
    UpToDate,
    /// Send the resource.
    Send(&'a Arc<Resource>),
    /// Report that the copy that was sent does not exist any more.
    Gone(Arc<Resource>),
    /// Report that there is no such resource (S-34).
    Missing,
}

impl<'a> Verdict<'a> {
    pub(crate) fn of(named: &SubscribedName, current: Option<&'a Arc<Resource>>) -> Self {
        match (named.sent(), current) {
            // xDS protocol, "ACK and NACK semantics": content that was NACKed is not sent again either (S-17, S-46).
            (Sent::Resource(sent), Some(resource)) if sent == resource => Self::UpToDate,
            (_, Some(resource)) => Self::Send(resource),
            (Sent::Resource(sent), None) => Self::Gone(Arc::clone(sent)),
            (Sent::Absent, None) => Self::UpToDate,
            (Sent::Nothing, None) => Self::Missing,
        }
    }
}

/// Items of a SotW full state, and the version of the whole.
#[derive(Debug)]
pub(crate) struct FullState {
    pub(crate) without: Vec<Arc<str>>,
    pub(crate) items: Items,
    /// Copies among the items whose removal is held.
    pub(crate) held: Vec<Arc<Resource>>,
    pub(crate) version: Version,
}

impl FullState {
    /// Full state for a wildcard client: the shared body, without the content that it NACKed, with the copies that it
    /// uses instead, and with those whose removal is held.
    pub(crate) fn of_all(client: &ClientState, current: &ResourceSet) -> Self {
        let held = client.held().values();
        let held: Vec<_> = held.map(|held| Arc::clone(&held.resource)).collect();
        let mut items: Items = held.iter().cloned().map(Item::Copy).collect();
        let mut without = Vec::new();
        let mut fingerprint = current.fingerprint();
        for (name, nacked) in client.nacked() {
            if let Some(substitute) = nacked.substitute(current.get(name)) {
                fingerprint.remove(name, &nacked.what.version);
                without.push(Arc::clone(name));
                items.extend(substitute.cloned().map(Item::Copy));
            }
        }
        let version = version_of(&items, fingerprint);
        Self {
            without,
            items,
            held,
            version,
        }
    }

    /// Full state for a client that subscribes by name (S-6).
    pub(crate) fn of_names(client: &ClientState, current: &ResourceSet) -> Self {
        let (mut items, mut kept) = (Items::new(), Vec::new());
        for named in client.subscription().iter() {
            let name = named.name();
            let (current, held) = (current.get(name), client.held().get(name));
            // A name that the client subscribed to since the NACK is sent as it is.
            let was_sent = named.sent() != Sent::Nothing;
            let nacked = client.nacked().get(name).filter(|_| was_sent);
            let substitute = nacked.and_then(|nacked| nacked.substitute(current));
            match (substitute, current, held) {
                (Some(in_use), _, _) => items.extend(in_use.cloned().map(Item::Copy)),
                (None, Some(resource), _) => items.push(Item::Resource(Arc::clone(resource))),
                (None, None, Some(held)) => {
                    items.push(Item::Copy(Arc::clone(&held.resource)));
                    kept.push(Arc::clone(&held.resource));
                }
                (None, None, None) => items.push(Item::Absent(Arc::clone(name))),
            }
        }
        let version = version_of(&items, Fingerprint::default());
        Self {
            without: Vec::new(),
            items,
            held: kept,
            version,
        }
    }
}

/// Version of a full state: a hash of all names and versions (S-29), with those of `items` besides `base`.
fn version_of(items: &Items, mut base: Fingerprint) -> Version {
    for item in items {
        if let Item::Resource(resource) | Item::Copy(resource) = item {
            base.add(resource.name(), &resource.version());
        }
    }
    base.version()
}
