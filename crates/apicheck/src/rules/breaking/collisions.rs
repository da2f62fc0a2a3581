//! Generated names that collide because of an addition (V-30).

use std::collections::{HashMap, HashSet};

use crate::compare::{Comparison, Pair};
use crate::finding::Language;
use crate::model::{Cardinality, Field, FileId, Kind, Message, Scalar, Source};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ChangedElement, ElementFacts, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[&NAME_COLLISION, &NAME_IS_KEYWORD];

/// Keywords of the Python language.
const PYTHON: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Element that needs a generated name: its full name and its declaration.
struct NameUse<'t> {
    name: String,
    file: FileId,
    source: &'t Source,
}

impl<'t> NameUse<'t> {
    fn field(message: &Message, field: &'t Field) -> Self {
        NameUse {
            name: format!("{}.{}", message.name, field.name),
            file: message.file,
            source: &field.source,
        }
    }
}

/// Two elements with the same generated name.
struct Collision<'t> {
    /// Either one may be the addition.
    between: [NameUse<'t>; 2],
    languages: &'static [Language],
}

/// Returns findings about added elements. Collisions that existed before are not reported. New
/// messages are not checked: no code uses their names yet.
pub(super) fn by_additions(comparison: &Comparison<'_>) -> Vec<ElementFacts> {
    let mut found = outer_classes(comparison);
    let added: HashSet<_> = comparison
        .fields
        .iter()
        .filter(|member| matches!(member.pair, Pair::Added(_)))
        .filter_map(|member| Some((&*member.new_owner.name, &*member.pair.after()?.name)))
        .map(|(message, field)| format!("{message}.{field}"))
        .collect();
    if added.is_empty() {
        return found;
    }
    let messages = comparison.messages.iter().filter_map(Pair::both);
    for message in messages.map(|(_, new)| new) {
        for collision in accessors(message)
            .into_iter()
            .chain(same_in_camel_case(message))
        {
            let [first, second] = &collision.between;
            let (new, taken) = match (added.contains(&first.name), added.contains(&second.name)) {
                (true, _) => (first, second),
                (false, true) => (second, first),
                (false, false) => continue,
            };
            let fact = collides(&taken.name, collision.languages);
            let subject =
                ChangedElement::of(comparison, &*new.name, None, Some((new.file, new.source)));
            found.push((subject, vec![fact]));
        }
    }
    found.extend(keywords(comparison));
    found
}

static NAME_COLLISION: Rule = Rule {
    id: "NAME_COLLISION",
    behaviours: &["V-30"],
    purpose: "The generated name of an added element is unique",
    why: "A field `foo_count` beside a repeated `foo` renames the accessors of both in Java. A message with the name of the outer class renames the class. Choose another name.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[],
};

fn collides(other: &str, languages: &'static [Language]) -> Fact {
    let message = format!("generated name collides with that of {other}");
    Fact::new(&NAME_COLLISION, message, "", other).breaks(languages)
}

/// The Java generator puts a file into an outer class. A message with the name of that class does
/// not compile if the name was given as an option. If the name was derived, the generator renames
/// the class, which breaks users of an existing file.
fn outer_classes(comparison: &Comparison<'_>) -> Vec<ElementFacts> {
    let before: HashSet<FileId> = comparison
        .files
        .iter()
        .filter_map(Pair::both)
        .map(|(_, new)| new.id)
        .collect();
    let mut found = Vec::new();
    let mut look = |name: &str, file: FileId, source: &Source| {
        let given = comparison.new[file].options.get("java_outer_classname");
        let given = given.and_then(|value| value.as_str().map(str::to_owned));
        if given.is_none() && !before.contains(&file) {
            return;
        }
        let path = &comparison.new[file].path;
        let stem = path.rsplit('/').next().unwrap_or(path);
        let class = given.unwrap_or_else(|| camel_case(stem.trim_end_matches(".proto")));
        if name.rsplit('.').next() == Some(&class) {
            let fact = collides(&format!("the Java class of {path}"), &[Language::Java]);
            let subject = ChangedElement::of(comparison, name, None, Some((file, source)));
            found.push((subject, vec![fact]));
        }
    };
    for pair in &comparison.messages {
        if let Pair::Added(new) = pair {
            look(&new.name, new.file, &new.source);
        }
    }
    for pair in &comparison.enums {
        if let Pair::Added(new) = pair {
            look(&new.name, new.file, &new.source);
        }
    }
    for pair in &comparison.services {
        if let Pair::Added(new) = pair {
            look(&new.name, new.file, &new.source);
        }
    }
    found
}

/// Returns fields whose accessor has the name of a derived accessor of another field or oneof.
fn accessors(message: &Message) -> Vec<Collision<'_>> {
    let by_name: HashMap<&str, &Field> = message
        .fields
        .iter()
        .map(|field| (&*field.name, field))
        .collect();
    let mut found = Vec::new();
    for field in &message.fields {
        for (prefix, suffix, languages) in derived_accessors(field) {
            let name = format!("{prefix}{}{suffix}", field.name);
            if let Some(taken) = by_name.get(&*name) {
                found.push(Collision {
                    between: [
                        NameUse::field(message, taken),
                        NameUse::field(message, field),
                    ],
                    languages,
                });
            }
        }
    }
    for oneof in &message.oneofs {
        let name = format!("{}_case", oneof.name);
        if let Some(taken) = by_name.get(&*name) {
            let name_use = NameUse {
                name: format!("{}.{}", message.name, oneof.name),
                file: message.file,
                source: &oneof.source,
            };
            found.push(Collision {
                between: [NameUse::field(message, taken), name_use],
                languages: &[Language::Cpp, Language::Java],
            });
        }
    }
    found
}

type Affix = (&'static str, &'static str, &'static [Language]);

/// Returns prefix and suffix of the derived accessors of a field.
fn derived_accessors(field: &Field) -> Vec<Affix> {
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

/// Returns fields with the same name in camel case: `foo_bar` and `fooBar` both become FooBar.
fn same_in_camel_case(message: &Message) -> Vec<Collision<'_>> {
    let mut seen: HashMap<String, &Field> = HashMap::new();
    let mut found = Vec::new();
    for field in &message.fields {
        if let Some(first) = seen.insert(camel_case(&field.name), field) {
            found.push(Collision {
                between: [
                    NameUse::field(message, field),
                    NameUse::field(message, first),
                ],
                languages: &[Language::Go, Language::Java],
            });
        }
    }
    found
}

static NAME_IS_KEYWORD: Rule = Rule {
    id: "NAME_IS_KEYWORD",
    behaviours: &["V-30"],
    purpose: "An added field does not have the name of a keyword",
    why: "Python can reach a field named `from` only through `getattr`; other generators append an underscore. Choose another name.",
    category: Category::Source,
    profiles: Profiles::WARNING,
    compares: Compares::Pair,
    buf: &[],
};

/// Returns added fields whose name is a keyword of Python.
fn keywords(comparison: &Comparison<'_>) -> Vec<ElementFacts> {
    let mut found = Vec::new();
    for member in &comparison.fields {
        if let Pair::Added(new) = member.pair
            && PYTHON.contains(&&*new.name)
        {
            let message = format!("{} is a Python keyword", new.name);
            let fact = Fact::new(&NAME_IS_KEYWORD, message, "", &*new.name);
            let subject = ChangedElement::member(comparison, member);
            found.push((subject, vec![fact.breaks(&[Language::Python])]));
        }
    }
    found
}

/// Converts a name as the generators do: `foo_bar.baz-1` becomes `FooBarBaz1`.
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
