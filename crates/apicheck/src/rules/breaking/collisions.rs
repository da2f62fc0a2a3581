//! Generated names that an addition takes from something else (V-30).

use std::collections::{HashMap, HashSet};

use super::Found;
use crate::compare::Comparison;
use crate::finding::Language;
use crate::model::{Cardinality, Field, File, FileId, Kind, Message, Scalar, Source, Tree};
use crate::rules::fact::{Fact, Subject};
use crate::rules::source::{NAME_COLLISION, NAME_IS_KEYWORD};

/// Words that Python's parser keeps for itself.
const PYTHON: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// One name that two things want.
struct Collision<'t> {
    element: String,
    other: String,
    languages: &'static [Language],
    file: FileId,
    source: &'t Source,
}

/// What collides in the new tree, and did not in the old one.
pub(super) fn brought_in(comparison: &Comparison<'_>) -> Vec<Found> {
    let before: HashSet<_> = collisions(comparison.old)
        .into_iter()
        .map(|one| (one.element, one.other))
        .collect();
    let words_before: HashSet<_> = keywords(comparison.old)
        .into_iter()
        .map(|(element, ..)| element)
        .collect();
    let collisions = collisions(comparison.new).into_iter();
    let mut found: Vec<Found> = collisions
        .filter(|one| !before.contains(&(one.element.clone(), one.other.clone())))
        .map(|one| {
            let message = format!("its generated name collides with that of {}", one.other);
            let fact = Fact::new(&NAME_COLLISION, message, "", one.other).breaks(one.languages);
            let place = Some((one.file, one.source));
            (
                Subject::of(comparison, one.element, None, place),
                vec![fact],
            )
        })
        .collect();
    for (element, word, file, source) in keywords(comparison.new) {
        if !words_before.contains(&element) {
            let message = format!("{word} is a keyword of Python");
            let fact = Fact::new(&NAME_IS_KEYWORD, message, "", word).breaks(&[Language::Python]);
            let subject = Subject::of(comparison, element, None, Some((file, source)));
            found.push((subject, vec![fact]));
        }
    }
    found
}

fn collisions(tree: &Tree) -> Vec<Collision<'_>> {
    let mut found = Vec::new();
    for file in tree.targets() {
        outer_class(tree, file, &mut found);
    }
    for message in tree.messages.iter().filter(|one| tree[one.file].target) {
        accessors(message, &mut found);
        same_in_camel_case(message, &mut found);
    }
    found
}

/// Java puts a file into a class; a message of that name either renames the class or does not compile.
fn outer_class<'t>(tree: &'t Tree, file: &'t File, found: &mut Vec<Collision<'t>>) {
    let given = file.options.get("java_outer_classname");
    let given = given.and_then(|value| value.as_str().map(str::to_owned));
    let stem = file.path.rsplit('/').next().unwrap_or(&file.path);
    let class = given.unwrap_or_else(|| camel_case(stem.trim_end_matches(".proto")));
    let messages = file
        .messages
        .iter()
        .map(|id| (&tree[*id].name, &tree[*id].source));
    let enums = file
        .enums
        .iter()
        .map(|id| (&tree[*id].name, &tree[*id].source));
    let services = file
        .services
        .iter()
        .map(|id| (&tree[*id].name, &tree[*id].source));
    for (name, source) in messages.chain(enums).chain(services) {
        if name.rsplit('.').next() == Some(&class) {
            found.push(Collision {
                element: name.to_string(),
                other: format!("the Java class of {}", file.path),
                languages: &[Language::Java],
                file: file.id,
                source,
            });
        }
    }
}

/// A field whose accessor is named like one that another field or a oneof brings along.
fn accessors<'t>(message: &'t Message, found: &mut Vec<Collision<'t>>) {
    if message.fields.len() < 2 && message.oneofs.is_empty() {
        return;
    }
    let by_name: HashMap<&str, &Field> = message
        .fields
        .iter()
        .map(|field| (&*field.name, field))
        .collect();
    let mut collide = |name: &str, other: &str, languages: &'static [Language]| {
        if let Some(taken) = by_name.get(name) {
            found.push(Collision {
                element: format!("{}.{name}", message.name),
                other: format!("{}.{other}", message.name),
                languages,
                file: message.file,
                source: &taken.source,
            });
        }
    };
    for field in &message.fields {
        for (prefix, suffix, languages) in brought_along(field) {
            collide(
                &format!("{prefix}{}{suffix}", field.name),
                &field.name,
                languages,
            );
        }
    }
    for oneof in &message.oneofs {
        let name = format!("{}_case", oneof.name);
        collide(&name, &oneof.name, &[Language::Cpp, Language::Java]);
    }
}

type Affix = (&'static str, &'static str, &'static [Language]);

/// What stands before and after a field's name in accessors that are not its own.
fn brought_along(field: &Field) -> Vec<Affix> {
    const GO: &[Language] = &[Language::Go];
    const JAVA: &[Language] = &[Language::Java];
    const CPP: &[Language] = &[Language::Cpp];
    let mut affixes: Vec<Affix> = vec![("get_", "", GO), ("clear_", "", CPP)];
    match field.cardinality {
        Cardinality::Repeated => {
            affixes.extend([
                ("", "_count", JAVA),
                ("", "_list", JAVA),
                ("", "_size", CPP),
            ]);
        }
        Cardinality::Map => {
            affixes.extend([("", "_count", JAVA), ("", "_map", JAVA), ("", "_size", CPP)]);
        }
        Cardinality::Explicit | Cardinality::Required => affixes.push(("has_", "", CPP)),
        Cardinality::Implicit => {}
    }
    match field.kind {
        Kind::Scalar(Scalar::String) => affixes.push(("", "_bytes", JAVA)),
        Kind::Enum(_) => affixes.push(("", "_value", JAVA)),
        Kind::Message(_) | Kind::Group(_) => affixes.push(("", "_builder", JAVA)),
        Kind::Scalar(_) => {}
    }
    affixes
}

/// `foo_bar` and `fooBar` are both FooBar.
fn same_in_camel_case<'t>(message: &'t Message, found: &mut Vec<Collision<'t>>) {
    let mut seen: HashMap<String, &Field> = HashMap::new();
    for field in &message.fields {
        if let Some(first) = seen.insert(camel_case(&field.name), field) {
            found.push(Collision {
                element: format!("{}.{}", message.name, field.name),
                other: format!("{}.{}", message.name, first.name),
                languages: &[Language::Go, Language::Java],
                file: message.file,
                source: &field.source,
            });
        }
    }
}

/// Fields named like a word of Python: element, word, place.
fn keywords(tree: &Tree) -> Vec<(String, &str, FileId, &Source)> {
    let messages = tree.messages.iter().filter(|one| tree[one.file].target);
    messages
        .flat_map(|message| message.fields.iter().map(move |field| (message, field)))
        .filter(|(_, field)| PYTHON.contains(&&*field.name))
        .map(|(message, field)| {
            let element = format!("{}.{}", message.name, field.name);
            (element, &*field.name, message.file, &field.source)
        })
        .collect()
}

/// `foo_bar.baz-1` as generators write it: `FooBarBaz1`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut upper = true;
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() {
            text.push(if upper {
                letter.to_ascii_uppercase()
            } else {
                letter
            });
            upper = letter.is_ascii_digit();
        } else {
            upper = true;
        }
    }
    text
}
