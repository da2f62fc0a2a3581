//! JSON and YAML: what a file written for one version says to a reader of the other (V-28, V-37).

use crate::rule::{Category, Compares, Profiles, Rule};

pub(super) static FIELD_RENAMED: Rule = Rule {
    id: "FIELD_RENAMED",
    behaviours: &["V-28", "V-29"],
    purpose: "A field keeps its name",
    why: "JSON and YAML files hold it, stubs are named after it. Annotate `(udpa.annotations.field_migrate).rename` and let the next major do it.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_NAME",
        "FIELD_SAME_JSON_NAME",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};
pub(super) static FIELD_JSON_NAME_CHANGED: Rule = Rule {
    id: "FIELD_JSON_NAME_CHANGED",
    behaviours: &["V-28"],
    purpose: "A field keeps its name in JSON",
    why: "Files written with the old name are refused, or the field is ignored.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_JSON_NAME"],
};
pub(super) static FIELD_JSON_TYPE_CHANGED: Rule = Rule {
    id: "FIELD_JSON_TYPE_CHANGED",
    behaviours: &["V-28"],
    purpose: "A field keeps a type that is written alike in JSON",
    why: "The bytes may be the same, the text is not: 64-bit integers are strings, bytes are base64, enums are names. Add a field.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_TYPE", "FIELD_WIRE_JSON_COMPATIBLE_TYPE"],
};
pub(super) static FIELD_JSON_LIST_CHANGED: Rule = Rule {
    id: "FIELD_JSON_LIST_CHANGED",
    behaviours: &["V-28"],
    purpose: "A single field does not become a list in JSON, nor a list a single one",
    why: "On the wire the last of several strings or messages is read; in JSON `[…]` is not a value and a value is not `[…]`. Add a repeated field.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_SAME_CARDINALITY",
        "FIELD_WIRE_JSON_COMPATIBLE_CARDINALITY",
    ],
};
pub(super) static ENUM_VALUE_RENAMED: Rule = Rule {
    id: "ENUM_VALUE_RENAMED",
    behaviours: &["V-28", "V-29"],
    purpose: "A value of an enum keeps its name",
    why: "JSON and YAML files hold it. Annotate `(udpa.annotations.enum_value_migrate).rename`, or add the new name as an alias after the old one.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_SAME_NAME",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};
pub(super) static ENUM_ZERO_CHANGED: Rule = Rule {
    id: "ENUM_ZERO_CHANGED",
    behaviours: &["V-37", "V-28"],
    purpose: "The zero of an enum keeps its name and meaning",
    why: "It is what every unset field says. Start an enum with `…_UNSPECIFIED`, so that it never needs another meaning.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_SAME_NAME",
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
    ],
};
pub(super) static METHOD_HTTP_CHANGED: Rule = Rule {
    id: "METHOD_HTTP_CHANGED",
    behaviours: &["V-28"],
    purpose: "A method keeps its REST binding",
    why: "Clients that call the URL get 404, or send a body where none is read. Add the new one to `additional_bindings`.",
    category: Category::Json,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[],
};
pub(super) const RULES: &[&Rule] = &[
    &FIELD_RENAMED,
    &FIELD_JSON_NAME_CHANGED,
    &FIELD_JSON_TYPE_CHANGED,
    &FIELD_JSON_LIST_CHANGED,
    &ENUM_VALUE_RENAMED,
    &ENUM_ZERO_CHANGED,
    &METHOD_HTTP_CHANGED,
];
