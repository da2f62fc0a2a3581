//! Names that authorization denies to this client. It learns the reason once (xRFC TP3, gRFC A88).

use std::{collections::BTreeMap, mem, sync::Arc};

use super::context::TypeContext;
use crate::{
    response::{ResourceErrorDetail, ResponseBuilder},
    session::request::RequestedNames,
};

/// Denied names with their reasons.
#[derive(Debug, Default)]
pub(crate) struct DeniedNames(BTreeMap<Arc<str>, Denial>);

#[derive(Debug)]
struct Denial {
    detail: ResourceErrorDetail,
    /// The reason was sent, or this client cannot receive it.
    sent: bool,
}

impl DeniedNames {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes the denied names of a request. SotW: no others are denied any more, and known reasons are not sent again.
    /// Delta: names that the client unsubscribes from are not denied any more; those that it subscribes to again are
    /// sent the reason again.
    pub(crate) fn note(
        &mut self,
        denied: Vec<(Arc<str>, ResourceErrorDetail)>,
        names: &RequestedNames,
    ) {
        let mut before = BTreeMap::new();
        match names {
            RequestedNames::Sotw { .. } => before = mem::take(&mut self.0),
            RequestedNames::Delta { unsubscribe, .. } => {
                unsubscribe
                    .iter()
                    .for_each(|name| drop(self.0.remove(&**name)));
            }
        }
        for (name, detail) in denied {
            let is_known = |before: &Denial| before.sent && before.detail == detail;
            let sent = before.get(&name).is_some_and(is_known);
            self.0.insert(name, Denial { detail, sent });
        }
    }

    /// Writes the reasons that were not sent yet. A delta client that does not read `resource_errors` learns that the
    /// resource does not exist; SotW cannot express it.
    pub(crate) fn write(
        &mut self,
        context: &TypeContext,
        response: &mut ResponseBuilder,
        limit: usize,
    ) {
        for (name, denial) in self.0.iter_mut().filter(|(_, denial)| !denial.sent) {
            let fits = if context.reads_errors {
                response.try_push_error(name, &denial.detail, limit)
            } else {
                !context.is_delta() || response.try_push_removal(name, limit)
            };
            if !fits {
                break;
            }
            denial.sent = true;
        }
    }
}
