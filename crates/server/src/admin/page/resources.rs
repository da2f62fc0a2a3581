//! The list of resources of a type, in pages of the server.

use std::sync::Arc;

use maud::html;
use oxds_core::snapshot::Resource;
use oxds_types::ResourceType;

use super::layout::{Section, View};
use super::parts::{count, pager, place, resource_link, shown};
use super::url::{Query, url};
use crate::admin::state::Admin;

/// Resources of a page.
const PER_PAGE: usize = 100;

/// Returns the type that a link names; `None` for one that is not served.
pub(super) fn resource_type(admin: &Admin, name: &str) -> Option<ResourceType> {
    let snapshot = admin.context.cache.snapshot();
    let mut types = snapshot.types().map(|(resource_type, _)| resource_type);
    types
        .find(|resource_type| resource_type.to_string() == name)
        .cloned()
}

/// Returns the list that a query asks for: type, group and text.
pub(super) fn view(admin: &Admin, query: &Query) -> View {
    let cache = &admin.context.cache;
    let snapshot = cache.snapshot();
    let (group, text) = (query.get("group"), query.get("q").to_lowercase());
    let types: Vec<(String, usize)> = snapshot
        .types()
        .map(|(one, of)| (one.to_string(), of.collection().len()))
        .collect();
    let wanted = match query.get("type") {
        "" if group.is_empty() => types.first().map_or("", |(name, _)| name),
        name => name,
    };
    let collection =
        resource_type(admin, wanted).map(|one| Arc::clone(snapshot.of_type(&one).collection()));
    let of_group = cache.resources_of_group(group);
    let all: Box<dyn Iterator<Item = &Arc<Resource>>> = match (&collection, group) {
        (Some(collection), "") => Box::new(collection.iter()),
        (_, "") => Box::new(std::iter::empty()),
        _ => Box::new(
            of_group
                .iter()
                .filter(|one| wanted.is_empty() || one.resource_type().to_string() == wanted),
        ),
    };
    // Names are few bytes: a search costs a millisecond per ten thousand resources, and holds no lock.
    let selected = all.filter(|one| text.is_empty() || one.name().to_lowercase().contains(&text));
    let page = query.page();
    let first = page.saturating_mul(PER_PAGE);
    let (mut shown_rows, mut total) = (Vec::new(), 0);
    for resource in selected {
        if total >= first && shown_rows.len() < PER_PAGE {
            shown_rows.push(resource);
        }
        total += 1;
    }
    let groups = cache.groups();
    let parameters = [("type", wanted), ("group", group), ("q", query.get("q"))];
    let content = html! {
        h1 { "Resources" }
        ul.tabs {
            @for (name, number) in &types {
                @let here = (name == wanted && group.is_empty()).then_some("true");
                li { a href=(url("/resources", &[("type", name)])) aria-current=[here] { (name) " " span.soft { (number) } } }
            }
            @for (name, number) in groups.iter().take(100) {
                @let here = (**name == *group).then_some("true");
                li { a href=(url("/resources", &[("group", name)])) aria-current=[here] { "group " (shown(name)) " " span.soft { (number) } } }
            }
        }
        form role="search" {
            input type="hidden" name="type" value=(wanted);
            @if !group.is_empty() { input type="hidden" name="group" value=(group); }
            label.wide { "Name" input type="search" name="q" value=(query.get("q")); }
            button { "Search" }
        }
        @if shown_rows.is_empty() { p.none { "No resource matches." } }
        @else { div.scroll { table {
            caption { (count(total, "resource")) }
            thead { tr { th scope="col" { "Name" } th scope="col" { "Version" } th scope="col" { "From" } th.num scope="col" { "Bytes" } } }
            tbody { @for resource in shown_rows {
                tr {
                    th scope="row" {
                        @if !group.is_empty() { (resource.resource_type()) " " }
                        (resource_link(&resource.resource_type().to_string(), resource.name(), group))
                    }
                    td { code { (resource.version()) } }
                    td.text { (origin(resource)) }
                    td.num { (resource.value().len()) }
                }
            } }
        } } }
        (pager("/resources", &parameters, page, PER_PAGE, total))
    };
    View {
        section: Section::Resources,
        title: "Resources".to_owned(),
        content,
    }
}

/// The place that a store has a resource from.
pub(super) fn origin(resource: &Resource) -> maud::Markup {
    html! {
        @if let Some(origin) = resource.origin() {
            @let (line, column) = origin.position.map_or((None, None), |at| (Some(at.line), Some(at.column)));
            (place(&origin.document.display().to_string(), line, column))
        }
    }
}
