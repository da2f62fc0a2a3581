//! Methods of services that both trees contain.

use crate::compare::{Comparison, Fate, Member, Pair};
use crate::model::{Method, Service};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, Fact};
use crate::rules::http::{self, Binding};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &METHOD_REMOVED,
    &METHOD_RENAMED,
    &METHOD_TYPE_CHANGED,
    &METHOD_STREAMING_CHANGED,
    &METHOD_IDEMPOTENCY_CHANGED,
    &METHOD_HTTP_CHANGED,
];

static METHOD_REMOVED: Rule = Rule {
    id: "METHOD_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "A method is not removed",
    why: "Clients get UNIMPLEMENTED. Deprecate it, and remove it in the next major.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RPC_NO_DELETE"],
};

static METHOD_RENAMED: Rule = Rule {
    id: "METHOD_RENAMED",
    behaviours: &["V-27"],
    purpose: "A method keeps its name",
    why: "It is part of the path of each call: old clients get UNIMPLEMENTED. Add a method and deprecate the old one.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RPC_NO_DELETE"],
};

static METHOD_TYPE_CHANGED: Rule = Rule {
    id: "METHOD_TYPE_CHANGED",
    behaviours: &["V-27"],
    purpose: "A method keeps its request and response types",
    why: "Peers of the other version cannot read the message, and generated code changes. Add a method.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RPC_SAME_REQUEST_TYPE", "RPC_SAME_RESPONSE_TYPE"],
};

static METHOD_STREAMING_CHANGED: Rule = Rule {
    id: "METHOD_STREAMING_CHANGED",
    behaviours: &["V-27"],
    purpose: "A method keeps its streaming mode",
    why: "A peer of the other version sends or expects one message instead of many. Add a method.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RPC_SAME_CLIENT_STREAMING", "RPC_SAME_SERVER_STREAMING"],
};

pub(super) fn method(
    comparison: &Comparison<'_>,
    member: &Member<'_, Service, Method>,
) -> Vec<Fact> {
    let (old, new, fate) = match member.pair {
        Pair::Both { old, new, fate } => (old, new, fate),
        Pair::Removed(old) => {
            return vec![Fact::new(&METHOD_REMOVED, "removed", &*old.name, "").breaks(ALL)];
        }
        Pair::Added(_) => return Vec::new(),
    };
    let mut facts = Vec::new();
    // gRPC over HTTP/2: the method name is part of the request path (V-27).
    if fate != Fate::Kept {
        let message = format!("renamed from {} to {}", old.name, new.name);
        facts.push(Fact::new(&METHOD_RENAMED, message, &*old.name, &*new.name).breaks(ALL));
    }
    let types = [
        ("request", old.input, new.input),
        ("response", old.output, new.output),
    ];
    for (what, earlier, current) in types {
        // Peers of the other version encode and decode the old message type (V-27).
        if comparison.new_message(earlier) != Some(current) {
            let (earlier, current) = (&comparison.old[earlier].name, &comparison.new[current].name);
            let message = format!("{what} changed from {earlier} to {current}");
            facts
                .push(Fact::new(&METHOD_TYPE_CHANGED, message, &**earlier, &**current).breaks(ALL));
        }
    }
    let streams = [
        ("client", old.client_streaming, new.client_streaming),
        ("server", old.server_streaming, new.server_streaming),
    ];
    for (what, earlier, current) in streams {
        if earlier != current {
            let verb = if current { "added" } else { "removed" };
            let message = format!("{what} streaming {verb}");
            let (earlier, current) = (earlier.to_string(), current.to_string());
            facts.push(Fact::new(&METHOD_STREAMING_CHANGED, message, earlier, current).breaks(ALL));
        }
    }
    facts.extend(method_options(old, new));
    facts
}

static METHOD_IDEMPOTENCY_CHANGED: Rule = Rule {
    id: "METHOD_IDEMPOTENCY_CHANGED",
    behaviours: &["V-27"],
    purpose: "A method keeps its idempotency level",
    why: "Clients use it to decide whether to retry a call, and some whether to send a GET.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RPC_SAME_IDEMPOTENCY_LEVEL"],
};

static METHOD_HTTP_CHANGED: Rule = Rule {
    id: "METHOD_HTTP_CHANGED",
    behaviours: &["V-28"],
    purpose: "A method keeps its REST bindings",
    why: "Clients of the old URL get 404, or send a body that is not read. Add the new binding to `additional_bindings`.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[],
};

fn method_options(old: &Method, new: &Method) -> impl Iterator<Item = Fact> {
    let level = |method: &Method| {
        let level = method.options.get("idempotency_level");
        level
            .and_then(prost_reflect::Value::as_enum_number)
            .unwrap_or_default()
    };
    let idempotency = (level(old) != level(new)).then(|| {
        let (earlier, current) = (level(old).to_string(), level(new).to_string());
        let message = "idempotency_level changed";
        Fact::new(&METHOD_IDEMPOTENCY_CHANGED, message, earlier, current)
    });
    idempotency.into_iter().chain(http(old, new))
}

/// Reports REST bindings that the new method lacks. Order does not matter, and an added binding takes
/// nothing away.
fn http(old: &Method, new: &Method) -> Option<Fact> {
    let (earlier, current) = (http::bindings(old), http::bindings(new));
    let without = |some: &[Binding], others: &[Binding]| -> String {
        let left = some.iter().filter(|one| !others.contains(one));
        let left: Vec<_> = left.map(ToString::to_string).collect();
        left.join(", ")
    };
    let (removed, added) = (without(&earlier, &current), without(&current, &earlier));
    if removed.is_empty() {
        return None;
    }
    let message = if added.is_empty() {
        format!("REST binding {removed} removed")
    } else {
        format!("REST binding changed from {removed} to {added}")
    };
    Some(Fact::new(&METHOD_HTTP_CHANGED, message, removed, added))
}
