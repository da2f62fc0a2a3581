//! SotW: a response lists resources, and cannot list removals.

use std::sync::Arc;

use crate::{
    session::{ResourceErrorDetail, response::ResponseBuilder, type_session::context::TypeContext},
    snapshot::{Form, TypeSnapshot},
};

/// Writes the shared body of all resources, in pieces where names are left out.
pub(crate) fn push_full_state(
    response: &mut ResponseBuilder,
    head: &TypeSnapshot,
    form: Form,
    without: &[Arc<str>],
) {
    if without.is_empty() {
        let bodies = head.full(form);
        bodies.iter().for_each(|body| response.push_body(body));
    } else {
        let pieces = head.full_without(form, without.iter());
        pieces.iter().for_each(|body| response.push_body(body));
    }
}

/// Writes that a name does not exist; returns false if there is no room for it.
pub(crate) fn push_absence(
    context: &TypeContext,
    response: &mut ResponseBuilder,
    name: &Arc<str>,
    limit: usize,
) -> bool {
    // xDS protocol, "Deleting resources": absence from a full state is the removal.
    let detail = || ResourceErrorDetail::not_found(&context.resource_type, name);
    context.is_full_state() || response.try_push_error(name, &detail(), limit)
}
