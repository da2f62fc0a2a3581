//! From a plan to a response, in both protocol variants. SotW lists resources and cannot list removals; delta lists
//! changed resources and removed names.

use std::ops::Range;

use super::{
    context::TypeContext,
    cursor::{SplitResponse, Step},
    hosts::HostRequests,
    in_flight::{Item, Items},
    pending::Pending,
    plan::Base,
};
use crate::{
    response::{ResourceErrorCode, ResourceErrorDetail, ResponseBuilder},
    snapshot::{Form, TypeSnapshot, nothing_by_alias, with_aliases},
};

/// Writes the shared part of a response. Returns its step, the indexes of the step's resources that it has, and the
/// parts that exceed the message limit.
pub(crate) fn push_base(
    response: &mut ResponseBuilder,
    head: &TypeSnapshot,
    form: Form,
    base: Base,
) -> (Option<Step>, Range<usize>, Option<SplitResponse>) {
    match base {
        Base::None => (None, 0..0, None),
        Base::FullState { without, step } => {
            if without.is_empty() {
                let bodies = head.full(form);
                bodies.iter().for_each(|body| response.push_body(body));
            } else {
                let pieces = head.full_without(form, without.iter());
                pieces.iter().for_each(|body| response.push_body(body));
            }
            (Some(step), 0..usize::MAX, None)
        }
        Base::Step {
            step,
            shares_removals,
        } => {
            let unsent = push_step(response, head, form, &step, shares_removals);
            (Some(step), 0..response.resources, unsent)
        }
        Base::Part(unsent) => {
            let (step, part, rest) = unsent.push_next(response, head.collection());
            (Some(step), part, rest)
        }
    }
}

/// Delta: writes the shared bodies of a step that fit, and returns the rest.
fn push_step(
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

/// Writes the items that fit. The names of the others become due again, and leave the list.
pub(crate) fn push_items(
    context: &TypeContext,
    hosts: &HostRequests,
    response: &mut ResponseBuilder,
    items: &mut Items,
    limit: usize,
    pending: &mut Pending,
) {
    response.reserve(items.len());
    items.retain(|item| {
        let fits = push_item(context, hosts, response, item, limit);
        if !fits {
            pending.add(item.name());
        }
        fits
    });
}

/// Writes one item; returns false if the message limit leaves no room for it.
fn push_item(
    context: &TypeContext,
    hosts: &HostRequests,
    response: &mut ResponseBuilder,
    item: &Item,
    limit: usize,
) -> bool {
    match item {
        Item::Resource(resource) | Item::Copy(resource) => {
            let mut element = resource.element(context.form);
            if context.has_aliases() {
                element = with_aliases(element, &hosts.aliases(item));
            }
            response.try_push_element(element, limit)
        }
        Item::Invalid(name, reason) => {
            let (code, message) = (ResourceErrorCode::Internal, reason.to_string());
            let detail = ResourceErrorDetail { code, message };
            response.try_push_error(name, &detail, limit)
        }
        // Envoy waits for an answer that has the requested name as an alias (VHDS).
        Item::Absent(name) if context.has_aliases() => {
            response.try_push_element(nothing_by_alias(name), limit)
        }
        // xDS protocol, "Deleting resources": absence from a full state is the removal.
        Item::Absent(_) if context.is_full_state() => true,
        Item::Absent(name) if !context.is_delta() => {
            let detail = ResourceErrorDetail::not_found(&context.resource_type, name);
            response.try_push_error(name, &detail, limit)
        }
        Item::Absent(name) | Item::Removed(name) => response.try_push_removal(name, limit),
    }
}
