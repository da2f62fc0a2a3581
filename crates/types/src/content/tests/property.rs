//! Random messages: contents are what their JSON has, and comparisons are complete.

use super::*;

/// Given random messages of the API, then their contents are what their JSON has, apart from hidden values.
#[test]
fn content_equals_the_json_of_the_codec() {
    let mut generator = Generator(7);
    for round in 0..200 {
        let any = random(&mut generator, round);
        let json = codec::encode(std::slice::from_ref(&any), Format::Json).unwrap();
        let mut json: Vec<Value> = serde_json::from_slice(&json).unwrap();
        // Most objects are messages, whose fields have descriptors. Of a map more is hidden.
        let mut expected = as_messages(from_json(json.remove(0)));
        let content = read(&any).unwrap();
        hide_secrets(&mut expected, "");
        let (mut a, mut b) = (
            serde_json::to_value(&content).unwrap(),
            serde_json::to_value(&expected).unwrap(),
        );
        // The rest is hidden by annotations of the API.
        same_where_shown(&mut a, &mut b);
        assert_eq!(a, b, "{round}");
    }
}

/// Takes all maps for messages.
fn as_messages(content: Content) -> Content {
    match content {
        Content::List(items) => Content::List(items.into_iter().map(as_messages).collect()),
        Content::Message(entries) | Content::Map(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|entry| Entry::new(entry.name, as_messages(entry.value)));
            Content::Message(entries.collect())
        }
        content => content,
    }
}

fn same_where_shown(a: &mut Value, b: &mut Value) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, a) in a {
                if let Some(b) = b.get_mut(key) {
                    same_where_shown(a, b);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter_mut().zip(b);
            pairs.for_each(|(a, b)| same_where_shown(a, b));
        }
        (a, b) if *a == json!(HIDDEN) => *b = a.clone(),
        _ => {}
    }
}

fn random(generator: &mut Generator, round: usize) -> Any {
    let names = [
        "envoy.config.route.v3.RouteConfiguration",
        "envoy.config.cluster.v3.Cluster",
        "envoy.config.listener.v3.Listener",
        "envoy.config.endpoint.v3.ClusterLoadAssignment",
    ];
    let schema = schema::find(names[round % names.len()]).unwrap();
    let message = generator.message(schema, 5);
    let mut value = Vec::new();
    canonical::encode(schema, &message, &mut value);
    Any {
        type_url: canonical::type_url(schema),
        value: value.into(),
    }
}

/// Given random contents and random edits of them: equal ones have no difference; otherwise the changes, applied to the
/// old content, give the new one, and no leaf is named twice.
#[test]
fn comparison_is_complete_and_names_each_leaf_once() {
    let mut generator = Generator(42);
    for round in 0..600 {
        let old = read(&random(&mut generator, round)).unwrap();
        assert_eq!(compare(&old, &old.clone()), []);
        let mut new = old.clone();
        for _ in 0..generator.below(8) {
            edit(&mut new, &mut generator);
        }
        if round % 10 == 9 {
            new = read(&random(&mut generator, round)).unwrap();
        }
        let changes = compare(&old, &new);
        assert_eq!(changes.is_empty(), old == new, "{round}: {changes:#?}");
        named_once(&changes);
        let steps: Vec<_> = changes
            .iter()
            .map(|change| (change.path.steps(), &change.change))
            .collect();
        let applied = apply(&old, &new, &steps);
        assert_eq!(sorted(applied), sorted(new), "{round}: {changes:#?}");
    }
}

fn named_once(changes: &[FieldChange]) {
    let is_order = |change: &FieldChange| matches!(change.change, ValueChange::Order { .. });
    for (at, one) in changes.iter().enumerate() {
        for other in changes[at + 1..].iter().filter(|other| !is_order(other)) {
            let (a, b) = (one.path.steps(), other.path.steps());
            assert!(is_order(one) || !a.starts_with(b) && !b.starts_with(a));
        }
    }
}

/// Changes a random place.
fn edit(content: &mut Content, generator: &mut Generator) {
    match content {
        Content::Message(entries) | Content::Map(entries) if !entries.is_empty() => {
            let at = generator.below(entries.len());
            let is_type = entries[at].name == "@type";
            match generator.below(6) {
                0 if !is_type => drop(entries.remove(at)),
                _ if is_type => {}
                _ => edit(&mut entries[at].value, generator),
            }
        }
        Content::List(items) if !items.is_empty() => {
            let (at, other) = (generator.below(items.len()), generator.below(items.len()));
            match generator.below(6) {
                0 => drop(items.remove(at)),
                1 => items.swap(at, other),
                2 => items.insert(other, items[at].clone()),
                _ => edit(&mut items[at], generator),
            }
        }
        Content::Scalar(Value::Number(_)) => *content = Content::Scalar(json!(77)),
        Content::Scalar(Value::Bool(value)) => *content = Content::Scalar(json!(!*value)),
        Content::Scalar(_) => *content = Content::text(format!("x{}", generator.below(9))),
        _ => {}
    }
}

/// Applies changes to `old`. `new` decides only how items are paired.
fn apply(old: &Content, new: &Content, changes: &[(&[Step], &ValueChange)]) -> Content {
    if let [([], ValueChange::Changed { new, .. })] = changes {
        return new.clone();
    }
    match (old, new) {
        _ if changes.is_empty() => old.clone(),
        (Content::Message(a), Content::Message(b)) => {
            Content::Message(apply_entries(a, b, changes, |name| {
                Step::Named(name.to_owned())
            }))
        }
        (Content::Map(a), Content::Map(b)) => Content::Map(apply_entries(a, b, changes, |key| {
            Step::Key(key.to_owned())
        })),
        (Content::List(a), Content::List(b)) => Content::List(apply_items(a, b, changes)),
        _ => panic!("no way into {old:?} by {changes:?}"),
    }
}

/// Returns the changes below a step, without the step.
fn below<'a>(
    changes: &[(&'a [Step], &'a ValueChange)],
    step: &Step,
) -> Vec<(&'a [Step], &'a ValueChange)> {
    let below = changes
        .iter()
        .filter(|(steps, _)| steps.first() == Some(step));
    below
        .map(|(steps, change)| (&steps[1..], *change))
        .collect()
}

fn apply_entries(
    old: &[Entry],
    new: &[Entry],
    changes: &[(&[Step], &ValueChange)],
    step: impl Fn(&str) -> Step,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    for entry in old {
        let own = below(changes, &step(&entry.name));
        if matches!(&own[..], [([], ValueChange::Removed(_))]) {
            continue;
        }
        let after = new.iter().find(|one| one.name == entry.name);
        let after = after.map_or(&entry.value, |one| &one.value);
        entries.push(Entry::new(&*entry.name, apply(&entry.value, after, &own)));
    }
    for entry in new {
        if let [([], ValueChange::Added(value))] = &below(changes, &step(&entry.name))[..] {
            entries.push(Entry::new(&*entry.name, value.clone()));
        }
    }
    entries
}

fn apply_items(
    old: &[Content],
    new: &[Content],
    changes: &[(&[Step], &ValueChange)],
) -> Vec<Content> {
    let Some((old_keys, new_keys)) = keys(old, new) else {
        return apply_positions(old, new, changes);
    };
    let mut items: Vec<(String, Content)> = Vec::new();
    for (item, key) in old.iter().zip(old_keys) {
        let own = below(changes, &Step::Key(key.clone()));
        if matches!(&own[..], [([], ValueChange::Removed(_))]) {
            continue;
        }
        let after = new_keys.iter().position(|one| *one == key);
        let after = after.map_or(item, |at| &new[at]);
        items.push((key, apply(item, after, &own)));
    }
    for key in &new_keys {
        if let [([], ValueChange::Added(value))] = &below(changes, &Step::Key(key.clone()))[..] {
            items.push((key.clone(), value.clone()));
        }
    }
    let order = changes.iter().find_map(|(steps, change)| match change {
        ValueChange::Order { new, .. } if steps.is_empty() => Some(new),
        _ => None,
    });
    if let Some(order) = order {
        items.sort_by_key(|(key, _)| order.iter().position(|one| one == key));
    }
    items.into_iter().map(|(_, item)| item).collect()
}

fn apply_positions(
    old: &[Content],
    new: &[Content],
    changes: &[(&[Step], &ValueChange)],
) -> Vec<Content> {
    let mut items: Vec<Option<Content>> = old.iter().cloned().map(Some).collect();
    let mut added = Vec::new();
    for at in 0..old.len().max(new.len()) {
        let own = below(changes, &Step::Index(at));
        match &own[..] {
            [([], ValueChange::Removed(_))] => items[at] = None,
            [([], ValueChange::Added(value))] => added.push((at, value.clone())),
            [] => {}
            own => items[at] = Some(apply(&old[at], &new[at], own)),
        }
    }
    let mut items: Vec<_> = items.into_iter().flatten().collect();
    for (at, value) in added {
        items.insert(at, value);
    }
    items
}

/// Sorts the entries of messages: an added field is listed last.
fn sorted(content: Content) -> Content {
    match content {
        Content::List(items) => Content::List(items.into_iter().map(sorted).collect()),
        Content::Message(entries) => Content::Message(sorted_entries(entries)),
        Content::Map(entries) => Content::Map(sorted_entries(entries)),
        other => other,
    }
}

fn sorted_entries(entries: Vec<Entry>) -> Vec<Entry> {
    let entries = entries.into_iter();
    let mut entries: Vec<_> = entries
        .map(|entry| Entry::new(entry.name, sorted(entry.value)))
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}
