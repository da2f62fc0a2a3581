//! Delta: a response lists changed resources and removed names.

use std::sync::Arc;

use crate::{
    session::{
        response::ResponseBuilder,
        type_session::{context::TypeContext, split::SplitResponse, step::Step},
    },
    snapshot::{Form, TypeSnapshot, nothing_by_alias},
};

/// Writes the shared bodies of a step that fit, and returns the rest.
pub(crate) fn push_step(
    response: &mut ResponseBuilder,
    head: &TypeSnapshot,
    form: Form,
    step: &Step,
    shares_removals: bool,
) -> Option<SplitResponse> {
    let limit = head.body_limit();
    match step {
        Step::InSync => None,
        Step::Since(since) => {
            let removals = shares_removals.then(|| since.removals());
            SplitResponse::begin(response, since.upserts(form), removals, step, limit)
        }
        Step::Everything => SplitResponse::begin(response, &head.full(form), None, step, limit),
    }
}

/// Writes that a subscribed name does not exist; returns false if there is no room for it.
pub(crate) fn push_absence(
    context: &TypeContext,
    response: &mut ResponseBuilder,
    name: &Arc<str>,
    limit: usize,
) -> bool {
    // Envoy waits for an answer that has the requested name as an alias (VHDS).
    if context.has_aliases() {
        return response.try_push_element(nothing_by_alias(name), limit);
    }
    response.try_push_removal(name, limit)
}
