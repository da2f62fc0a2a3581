//! Names that authorization denies to this client. It learns the reason once (xRFC TP3, gRFC A88).

use std::{collections::BTreeMap, mem, sync::Arc};

use super::context::TypeContext;
use crate::session::{ResourceErrorDetail, response::ResponseBuilder};

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
    fn insert(&mut self, name: Arc<str>, detail: ResourceErrorDetail) {
        let same = |before: &Denial| before.sent && before.detail == detail;
        let sent = self.0.get(&name).is_some_and(same);
        self.0.insert(name, Denial { detail, sent });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// SotW: these names of the request are denied, and no others any more.
    pub(crate) fn replace(&mut self, denied: Vec<(Arc<str>, ResourceErrorDetail)>) {
        let mut before = mem::take(self);
        for (name, detail) in denied {
            if let Some(denial) = before.0.remove(&name) {
                self.0.insert(Arc::clone(&name), denial);
            }
            self.insert(name, detail);
        }
    }

    /// Delta: these names are denied too, and those that the client unsubscribes from not any more.
    pub(crate) fn update(
        &mut self,
        denied: Vec<(Arc<str>, ResourceErrorDetail)>,
        unsubscribed: &[String],
    ) {
        for name in unsubscribed {
            self.0.remove(&**name);
        }
        for (name, detail) in denied {
            // Subscribed again, so the reason is sent again.
            self.0.remove(&name);
            self.insert(name, detail);
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
