//! Generated code in C++, Go, Java and Python: what no longer compiles against new stubs (V-30).

use crate::rule::{Category, Compares, Profiles, Rule};

pub(super) static FIELD_STUB_TYPE_CHANGED: Rule = Rule {
    id: "FIELD_STUB_TYPE_CHANGED",
    behaviours: &["V-30"],
    purpose: "A field keeps its type in generated code",
    why: "Bytes and JSON agree, the type of the accessor does not: callers no longer compile, or cut off values.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_TYPE"],
};
pub(super) static FIELD_PRESENCE_CHANGED: Rule = Rule {
    id: "FIELD_PRESENCE_CHANGED",
    behaviours: &["V-30"],
    purpose: "`optional` stays as it is",
    why: "It adds or takes away `has_…`, and turns a value into a pointer in Go.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_CARDINALITY"],
};
pub(super) static FIELD_ONEOF_WRAPPED: Rule = Rule {
    id: "FIELD_ONEOF_WRAPPED",
    behaviours: &["V-28", "V-29", "V-30"],
    purpose: "A field is not wrapped alone into a oneof, nor unwrapped",
    why: "Bytes and JSON agree, but Go gets an interface where a field was, and the others a case. Annotate `(udpa.annotations.field_migrate).oneof_promotion`.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_ONEOF", "ONEOF_NO_DELETE"],
};
pub(super) static ONEOF_RENAMED: Rule = Rule {
    id: "ONEOF_RENAMED",
    behaviours: &["V-30"],
    purpose: "A oneof keeps its name",
    why: "It is neither in bytes nor in JSON, but accessors of the case and Go's interface are named after it.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_ONEOF", "ONEOF_NO_DELETE"],
};
pub(super) static ENUM_RENAMED: Rule = Rule {
    id: "ENUM_RENAMED",
    behaviours: &["V-29", "V-30"],
    purpose: "An enum keeps its full name",
    why: "Stubs are named after it. Annotate `(udpa.annotations.enum_migrate).rename` and let the next major do it.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_NO_DELETE",
        "PACKAGE_ENUM_NO_DELETE",
        "FIELD_SAME_TYPE",
    ],
};
pub(super) static ELEMENT_MOVED: Rule = Rule {
    id: "ELEMENT_MOVED",
    behaviours: &["V-30"],
    purpose: "What is declared in a file stays in it",
    why: "C++ includes and Python imports name the file. A public import of the new file in the old one keeps C++ whole, not Python.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "MESSAGE_NO_DELETE",
        "ENUM_NO_DELETE",
        "SERVICE_NO_DELETE",
        "EXTENSION_NO_DELETE",
    ],
};
pub(super) static FILE_MOVED: Rule = Rule {
    id: "FILE_MOVED",
    behaviours: &["V-30"],
    purpose: "A file keeps its path",
    why: "Imports, C++ includes and Python modules name it. Leave a file that imports the new one publicly.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FILE_NO_DELETE"],
};
pub(super) static FILE_OPTION_CHANGED: Rule = Rule {
    id: "FILE_OPTION_CHANGED",
    behaviours: &["V-30"],
    purpose: "Options that place or shape generated code stay",
    why: "`go_package`, `java_package` and their like are the names under which others import the stubs.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FILE_SAME_CC_ENABLE_ARENAS",
        "FILE_SAME_CC_GENERIC_SERVICES",
        "FILE_SAME_CSHARP_NAMESPACE",
        "FILE_SAME_GO_PACKAGE",
        "FILE_SAME_JAVA_GENERIC_SERVICES",
        "FILE_SAME_JAVA_MULTIPLE_FILES",
        "FILE_SAME_JAVA_OUTER_CLASSNAME",
        "FILE_SAME_JAVA_PACKAGE",
        "FILE_SAME_OBJC_CLASS_PREFIX",
        "FILE_SAME_OPTIMIZE_FOR",
        "FILE_SAME_PHP_CLASS_PREFIX",
        "FILE_SAME_PHP_METADATA_NAMESPACE",
        "FILE_SAME_PHP_NAMESPACE",
        "FILE_SAME_PY_GENERIC_SERVICES",
        "FILE_SAME_RUBY_PACKAGE",
        "FILE_SAME_SWIFT_PREFIX",
        "FIELD_SAME_JAVA_UTF8_VALIDATION",
    ],
};
pub(super) static FIELD_OPTION_CHANGED: Rule = Rule {
    id: "FIELD_OPTION_CHANGED",
    behaviours: &["V-30"],
    purpose: "Options that shape the accessor of a field stay",
    why: "`ctype` changes the string type of C++, `jstype` the number type of JavaScript.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["FIELD_SAME_CPP_STRING_TYPE", "FIELD_SAME_JSTYPE"],
};
pub(super) static EXTENSION_RENAMED: Rule = Rule {
    id: "EXTENSION_RENAMED",
    behaviours: &["V-30"],
    purpose: "An extension keeps its full name",
    why: "Options are written by it, stubs are named after it.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["EXTENSION_NO_DELETE", "PACKAGE_EXTENSION_NO_DELETE"],
};
pub(super) static NAME_COLLISION: Rule = Rule {
    id: "NAME_COLLISION",
    behaviours: &["V-30"],
    purpose: "Nothing is added whose generated name is taken already",
    why: "A field `foo_count` beside a repeated `foo` renames the accessors of both in Java; a message named like the outer class renames the class. Choose another name.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[],
};
pub(super) static NAME_IS_KEYWORD: Rule = Rule {
    id: "NAME_IS_KEYWORD",
    behaviours: &["V-30"],
    purpose: "Nothing is added that is named like a word of a language",
    why: "Python can reach a field named `from` only through `getattr`; other generators append an underscore. Choose another name.",
    category: Category::Source,
    profiles: Profiles::WARNING,
    compares: Compares::Pair,
    buf: &[],
};
pub(super) const RULES: &[&Rule] = &[
    &FIELD_STUB_TYPE_CHANGED,
    &FIELD_PRESENCE_CHANGED,
    &FIELD_ONEOF_WRAPPED,
    &ONEOF_RENAMED,
    &ENUM_RENAMED,
    &ELEMENT_MOVED,
    &FILE_MOVED,
    &FILE_OPTION_CHANGED,
    &FIELD_OPTION_CHANGED,
    &EXTENSION_RENAMED,
    &NAME_COLLISION,
    &NAME_IS_KEYWORD,
];
