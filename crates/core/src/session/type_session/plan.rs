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
    cursor::{SplitResponse, Step},
    in_flight::{Item, Items, KeptCopies},
};
use crate::{
    snapshot::{Resource, ResourceSet},
    subscription::Sent,
};

/// Content of the next response.
#[derive(Debug)]
pub(crate) struct ResponsePlan {
    /// State that the response leads to.
    pub(crate) to: Arc<ResourceSet>,
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
    pub(crate) fn new(to: &Arc<ResourceSet>, base: Base, items: Items, is_due: bool) -> Self {
        Self {
            to: Arc::clone(to),
            base,
            items,
            version: to.version(),
            kept: KeptCopies::default(),
            assignments: Vec::new(),
            is_due,
        }
    }

    /// SotW full state for a wildcard client: the shared body, without the content that it NACKed, with the copies
    /// that it uses instead, and with those whose removal is held.
    pub(crate) fn of_all(client: &ClientState, to: &Arc<ResourceSet>, step: Step) -> Self {
        let held = client.held().values();
        let held: Vec<_> = held.map(|held| Arc::clone(&held.resource)).collect();
        let mut items: Items = held.iter().cloned().map(Item::Copy).collect();
        let mut without = Vec::new();
        let mut fingerprint = to.fingerprint();
        for (name, nacked) in client.nacked() {
            if let Some(substitute) = nacked.substitute(to.get(name)) {
                if to.get(name).is_some() {
                    fingerprint.remove(name, &nacked.what.version);
                    without.push(Arc::clone(name));
                }
                items.extend(substitute.cloned().map(Item::Copy));
            }
        }
        let base = Base::FullState { without, step };
        Self::full_state(to, base, items, held, fingerprint)
    }

    /// SotW full state for a client that subscribes by name (S-6).
    pub(crate) fn of_names(client: &ClientState, to: &Arc<ResourceSet>) -> Self {
        let (mut items, mut kept) = (Items::new(), Vec::new());
        for named in client.subscription().iter() {
            let name = named.name();
            let (current, held) = (to.get(name), client.held().get(name));
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
        Self::full_state(to, Base::None, items, kept, Fingerprint::default())
    }

    /// Plan of a full state. The version is a hash of all names and versions (S-29): those of the items besides
    /// `fingerprint`.
    fn full_state(
        to: &Arc<ResourceSet>,
        base: Base,
        items: Items,
        held: Vec<Arc<Resource>>,
        mut fingerprint: Fingerprint,
    ) -> Self {
        for item in &items {
            if let Item::Resource(resource) | Item::Copy(resource) = item {
                fingerprint.add(resource.name(), &resource.version());
            }
        }
        let mut plan = Self::new(to, base, items, true);
        plan.version = fingerprint.version();
        plan.kept.held = held;
        plan
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
    /// Delta: the next part of a step that exceeds the message limit.
    Part(SplitResponse),
}
