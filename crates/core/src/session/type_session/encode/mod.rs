//! From a plan to a response, in both protocol variants.

mod delta;
mod sotw;

use super::{context::TypeContext, in_flight::Items, item::Item, plan::Base, split::SplitResponse};
use crate::{
    session::{ResourceErrorDetail, response::ResponseBuilder},
    snapshot::{Form, TypeSnapshot},
};

/// Writes the shared part of a response; returns the parts that exceed the message limit.
pub(crate) fn push_base(
    response: &mut ResponseBuilder,
    head: &TypeSnapshot,
    form: Form,
    base: &Base,
) -> Option<SplitResponse> {
    match base {
        Base::None => None,
        Base::FullState { without, .. } => {
            sotw::push_full_state(response, head, form, without);
            None
        }
        Base::Step {
            step,
            shares_removals,
        } => delta::push_step(response, head, form, step, *shares_removals),
    }
}

/// Writes the items that fit, and removes the others from the list. Returns those.
pub(crate) fn push_items(
    context: &TypeContext,
    response: &mut ResponseBuilder,
    items: &mut Items,
    limit: usize,
) -> Vec<Item> {
    let mut left = Vec::new();
    response.expect(items.len());
    items.retain(|item| {
        let fits = push_item(context, response, item, limit);
        if !fits {
            left.push(item.clone());
        }
        fits
    });
    left
}

/// Writes one item; returns false if the message limit leaves no room for it.
fn push_item(
    context: &TypeContext,
    response: &mut ResponseBuilder,
    item: &Item,
    limit: usize,
) -> bool {
    match item {
        Item::Resource(resource) | Item::Copy(resource) => {
            response.try_push_element(resource.element(context.form), limit)
        }
        Item::Invalid(name, reason) => {
            let detail = ResourceErrorDetail::invalid(reason);
            response.try_push_error(name, &detail, limit)
        }
        Item::Removed(name) => response.try_push_removal(name, limit),
        Item::Absent(name) if context.is_delta() => {
            delta::push_absence(context, response, name, limit)
        }
        Item::Absent(name) => sotw::push_absence(context, response, name, limit),
    }
}
