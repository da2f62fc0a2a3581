//! RequestedNames that this client does not get, whatever there is of them: it hears why, once (xRFC TP3, gRFC A88).

use std::{collections::BTreeMap, mem, sync::Arc};

use smallvec::SmallVec;

use super::{
    Watch,
    response::{Content, Draft, Kept},
};
use crate::{
    session::{ResourceErrorDetail, frame::Response},
    snapshot::{Protocol, TypeSnapshot},
};

/// By name: why the client does not get it.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<Arc<str>, Reason>);

#[derive(Debug)]
struct Reason {
    refusal: ResourceErrorDetail,
    /// The client heard of it, or would not understand.
    told: bool,
}

impl Refused {
    fn insert(&mut self, name: Arc<str>, refusal: ResourceErrorDetail) {
        let told = |reason: &Reason| reason.told && reason.refusal == refusal;
        let told = self.0.get(&name).is_some_and(told);
        self.0.insert(name, Reason { refusal, told });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Watch {
    /// SotW: these, and no others any more, of the names in the request.
    pub(in crate::session) fn refuse_only(
        &mut self,
        refusals: Vec<(Arc<str>, ResourceErrorDetail)>,
    ) {
        let mut before = mem::take(&mut self.refused);
        for (name, refusal) in refusals {
            if let Some(reason) = before.0.remove(&name) {
                self.refused.0.insert(Arc::clone(&name), reason);
            }
            self.refused.insert(name, refusal);
        }
    }

    /// Delta: these too; not those any more that the client unsubscribes from.
    pub(in crate::session) fn refuse_too(
        &mut self,
        refusals: Vec<(Arc<str>, ResourceErrorDetail)>,
        unsubscribed: &[String],
    ) {
        for name in unsubscribed {
            self.refused.0.remove(&**name);
        }
        for (name, refusal) in refusals {
            // Asked for again, so it is said again.
            self.refused.0.remove(&name);
            self.refused.insert(name, refusal);
        }
    }

    /// What the client has not heard of yet. One that does not understand errors hears, by delta, that there is no such
    /// resource; in SotW nothing can be said.
    pub(super) fn tell_refused(&mut self, response: &mut Response, limit: usize) {
        for (name, reason) in self.refused.0.iter_mut().filter(|(_, reason)| !reason.told) {
            if self.understands_errors {
                let room = name.len() + reason.refusal.message.len() + 32;
                if !response.has_room_for(room, limit) {
                    break;
                }
                response.push_error(name, &reason.refusal);
            } else if self.form.protocol == Protocol::Delta {
                if !response.has_room_to_remove(name, limit) {
                    break;
                }
                response.push_removal(name);
            }
            reason.told = true;
        }
    }

    /// The same, if there is nothing else to say.
    pub(super) fn poll_refused(&mut self, head: &TypeSnapshot) -> Option<Draft> {
        let mut response = Response::new(self.form.protocol);
        self.tell_refused(&mut response, head.body_limit());
        (!response.is_empty()).then(|| Draft {
            response,
            version: self.record.sent.unwrap_or(head.collection().version()),
            content: Content::Named(SmallVec::new()),
            kept: Kept::default(),
            rewarm: Vec::new(),
        })
    }
}
