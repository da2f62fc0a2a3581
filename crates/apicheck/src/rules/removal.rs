//! Removals: only of what was deprecated before, with number and name reserved (V-36).

use crate::rule::{Category, Compares, Profiles, Rule};

pub(super) static PACKAGE_REMOVED: Rule = Rule {
    id: "PACKAGE_REMOVED",
    behaviours: &["V-15", "V-27", "V-36"],
    purpose: "A package stays",
    why: "Whatever was sent or stored in it can no longer be read. A major that is no longer supported is frozen, not deleted.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["PACKAGE_NO_DELETE", "FILE_NO_DELETE"],
};
pub(super) static FILE_REMOVED: Rule = Rule {
    id: "FILE_REMOVED",
    behaviours: &["V-30", "V-36"],
    purpose: "A file stays",
    why: "Others import it, and what it declared is gone with it.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FILE_NO_DELETE",
        "PACKAGE_MESSAGE_NO_DELETE",
        "PACKAGE_ENUM_NO_DELETE",
        "PACKAGE_SERVICE_NO_DELETE",
        "PACKAGE_EXTENSION_NO_DELETE",
    ],
};
pub(super) static MESSAGE_REMOVED: Rule = Rule {
    id: "MESSAGE_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "A message stays",
    why: "What was sent or stored as such a message can no longer be read. Deprecate it, and let the next major drop it.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["MESSAGE_NO_DELETE", "PACKAGE_MESSAGE_NO_DELETE"],
};
pub(super) static ENUM_REMOVED: Rule = Rule {
    id: "ENUM_REMOVED",
    behaviours: &["V-30", "V-36"],
    purpose: "An enum stays",
    why: "Stubs of those that use it no longer compile. Deprecate it, and let the next major drop it.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["ENUM_NO_DELETE", "PACKAGE_ENUM_NO_DELETE"],
};
pub(super) static SERVICE_REMOVED: Rule = Rule {
    id: "SERVICE_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "A service stays",
    why: "Clients get UNIMPLEMENTED. Deprecate it, and let the next major drop it.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["SERVICE_NO_DELETE", "PACKAGE_SERVICE_NO_DELETE"],
};
pub(super) static METHOD_REMOVED: Rule = Rule {
    id: "METHOD_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "A method stays",
    why: "Clients get UNIMPLEMENTED. Deprecate it, and let the next major drop it.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["RPC_NO_DELETE"],
};
pub(super) static EXTENSION_REMOVED: Rule = Rule {
    id: "EXTENSION_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "An extension stays",
    why: "Whoever writes the option no longer compiles.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["EXTENSION_NO_DELETE", "PACKAGE_EXTENSION_NO_DELETE"],
};
pub(super) static FIELD_REMOVED: Rule = Rule {
    id: "FIELD_REMOVED",
    behaviours: &["V-36"],
    purpose: "A field is deprecated before it is removed",
    why: "Old configurations still set it, and are refused or silently mean something else. Deprecate it, wait for the window to pass, then reserve number and name.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_NO_DELETE",
        "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
        "ONEOF_NO_DELETE",
    ],
};
pub(super) static ENUM_VALUE_REMOVED: Rule = Rule {
    id: "ENUM_VALUE_REMOVED",
    behaviours: &["V-36"],
    purpose: "A value of an enum is deprecated before it is removed",
    why: "Old configurations still say it. Deprecate it, wait for the window to pass, then reserve number and name.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};
pub(super) static REMOVED_UNRESERVED: Rule = Rule {
    id: "REMOVED_UNRESERVED",
    behaviours: &["V-36"],
    purpose: "Number and name of what is removed are reserved",
    why: "Otherwise the next author uses them for something else. Add `reserved 7;` and `reserved \"name\";`.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "FIELD_NO_DELETE",
        "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
    ],
};
pub(super) static DEPRECATED_REMOVED: Rule = Rule {
    id: "DEPRECATED_REMOVED",
    behaviours: &["V-36"],
    purpose: "What is removed is past its window",
    why: "It was deprecated, and is reserved now; whether the window of deprecation has passed, the ledger of releases tells.",
    category: Category::Policy,
    profiles: Profiles::NOTE,
    compares: Compares::Pair,
    buf: &["FIELD_NO_DELETE", "ENUM_VALUE_NO_DELETE", "ONEOF_NO_DELETE"],
};
pub(super) const RULES: &[&Rule] = &[
    &PACKAGE_REMOVED,
    &FILE_REMOVED,
    &MESSAGE_REMOVED,
    &ENUM_REMOVED,
    &SERVICE_REMOVED,
    &METHOD_REMOVED,
    &EXTENSION_REMOVED,
    &FIELD_REMOVED,
    &ENUM_VALUE_REMOVED,
    &REMOVED_UNRESERVED,
    &DEPRECATED_REMOVED,
];
