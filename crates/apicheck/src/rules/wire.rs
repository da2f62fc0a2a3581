//! Bytes on the wire: what an old reader makes of new bytes, and a new one of old bytes (V-27).

use crate::rule::{Category, Compares, Profiles, Rule};

const fn wire(
    id: &'static str,
    purpose: &'static str,
    why: &'static str,
    buf: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        behaviours: &["V-27"],
        purpose,
        why,
        category: Category::Wire,
        profiles: Profiles::ERROR,
        compares: Compares::Pair,
        buf,
    }
}

pub(super) static FIELD_RENUMBERED: Rule = wire(
    "FIELD_RENUMBERED",
    "A field keeps its number",
    "The number is the name of a field on the wire: old bytes are read as another field, or lost. Give new meaning a new field and deprecate the old one.",
    &[
        "FIELD_NO_DELETE",
        "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "FIELD_NO_DELETE_UNLESS_NAME_RESERVED",
        "FIELD_SAME_NAME",
        "FIELD_SAME_JSON_NAME",
    ],
);
pub(super) static FIELD_TYPE_CHANGED: Rule = wire(
    "FIELD_TYPE_CHANGED",
    "A field keeps a type that is encoded alike",
    "Bytes of one type are not bytes of the other: readers fail, or see another value. Add a field of the new type.",
    &[
        "FIELD_SAME_TYPE",
        "FIELD_WIRE_COMPATIBLE_TYPE",
        "FIELD_WIRE_JSON_COMPATIBLE_TYPE",
    ],
);
pub(super) static FIELD_CARDINALITY_CHANGED: Rule = wire(
    "FIELD_CARDINALITY_CHANGED",
    "A field stays single, repeated, required or a map",
    "A packed list is not read as one number, a required field that is missing fails the whole message, a map is not its value. Add a field.",
    &[
        "FIELD_SAME_CARDINALITY",
        "FIELD_WIRE_COMPATIBLE_CARDINALITY",
        "FIELD_WIRE_JSON_COMPATIBLE_CARDINALITY",
        "MESSAGE_SAME_REQUIRED_FIELDS",
    ],
);
pub(super) static FIELD_NUMBER_REUSED: Rule = wire(
    "FIELD_NUMBER_REUSED",
    "A number or name that belonged to something else is not used again",
    "Old writers still send the old meaning under it. Take the next free number.",
    &[
        "FIELD_SAME_NAME",
        "FIELD_SAME_JSON_NAME",
        "FIELD_SAME_TYPE",
        "FIELD_WIRE_COMPATIBLE_TYPE",
        "FIELD_WIRE_JSON_COMPATIBLE_TYPE",
        "RESERVED_MESSAGE_NO_DELETE",
        "RESERVED_ENUM_NO_DELETE",
    ],
);
pub(super) static RESERVED_REMOVED: Rule = wire(
    "RESERVED_REMOVED",
    "What is reserved stays reserved",
    "A reservation is the memory of a field that was: without it the next author uses its number.",
    &["RESERVED_MESSAGE_NO_DELETE", "RESERVED_ENUM_NO_DELETE"],
);
pub(super) static FIELD_ONEOF_CHANGED: Rule = wire(
    "FIELD_ONEOF_CHANGED",
    "A field does not move into, out of or between oneofs",
    "Readers keep only the last member of a oneof, so values that were both set are lost; stubs change too. Annotate `(udpa.annotations.field_migrate).oneof_promotion` and let the next major do it.",
    &["FIELD_SAME_ONEOF", "ONEOF_NO_DELETE"],
);
pub(super) static FIELD_DEFAULT_CHANGED: Rule = wire(
    "FIELD_DEFAULT_CHANGED",
    "A default value of proto2 stays",
    "An unset field means another value to a reader that was compiled later.",
    &["FIELD_SAME_DEFAULT"],
);
pub(super) static PACKAGE_RENAMED: Rule = wire(
    "PACKAGE_RENAMED",
    "What is declared in a package stays in it",
    "Type URLs in `Any` and the paths of gRPC methods hold the package. Annotate `(udpa.annotations.file_migrate).move_to_package` and let the next major do it.",
    &["FILE_SAME_PACKAGE", "PACKAGE_NO_DELETE"],
);
pub(super) static MESSAGE_RENAMED: Rule = wire(
    "MESSAGE_RENAMED",
    "A message keeps its full name",
    "Type URLs in `Any` hold it, and stubs are named after it. Annotate `(udpa.annotations.message_migrate).rename` and let the next major do it.",
    &["MESSAGE_NO_DELETE", "PACKAGE_MESSAGE_NO_DELETE"],
);
pub(super) static SERVICE_RENAMED: Rule = Rule {
    behaviours: &["V-5", "V-27"],
    ..wire(
        "SERVICE_RENAMED",
        "A service keeps its full name",
        "It is part of the path of each call: old clients get UNIMPLEMENTED. Serve both for a while.",
        &["SERVICE_NO_DELETE", "PACKAGE_SERVICE_NO_DELETE"],
    )
};
pub(super) static METHOD_RENAMED: Rule = wire(
    "METHOD_RENAMED",
    "A method keeps its name",
    "It is part of the path of each call: old clients get UNIMPLEMENTED. Add a method and deprecate the old one.",
    &["RPC_NO_DELETE"],
);
pub(super) static METHOD_TYPE_CHANGED: Rule = wire(
    "METHOD_TYPE_CHANGED",
    "A method takes and gives the same messages",
    "Peers of the other version cannot read the message, and stubs change. Add a method.",
    &["RPC_SAME_REQUEST_TYPE", "RPC_SAME_RESPONSE_TYPE"],
);
pub(super) static METHOD_STREAMING_CHANGED: Rule = wire(
    "METHOD_STREAMING_CHANGED",
    "A method streams as it did",
    "A peer of the other version sends or expects one message where there are many. Add a method.",
    &["RPC_SAME_CLIENT_STREAMING", "RPC_SAME_SERVER_STREAMING"],
);
pub(super) static METHOD_IDEMPOTENCY_CHANGED: Rule = wire(
    "METHOD_IDEMPOTENCY_CHANGED",
    "A method keeps its idempotency level",
    "Clients decide by it whether to repeat a call, and some whether to send a GET.",
    &["RPC_SAME_IDEMPOTENCY_LEVEL"],
);
pub(super) static ENUM_VALUE_RENUMBERED: Rule = wire(
    "ENUM_VALUE_RENUMBERED",
    "A value of an enum keeps its number",
    "The number is what is sent: old peers read another value. Add a value.",
    &[
        "ENUM_VALUE_NO_DELETE",
        "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        "ENUM_VALUE_NO_DELETE_UNLESS_NAME_RESERVED",
        "ENUM_VALUE_SAME_NAME",
    ],
);
pub(super) static ENUM_OPENNESS_CHANGED: Rule = wire(
    "ENUM_OPENNESS_CHANGED",
    "An enum stays open, or stays closed",
    "Readers of a closed enum put unknown numbers aside; readers of an open one keep them in the field.",
    &["ENUM_SAME_TYPE"],
);
pub(super) static EXTENSION_CHANGED: Rule = wire(
    "EXTENSION_CHANGED",
    "An extension extends the same message, with the same number and type",
    "It is a field of that message on the wire; options of compiled descriptors are read by number.",
    &[
        "EXTENSION_NO_DELETE",
        "PACKAGE_EXTENSION_NO_DELETE",
        "FIELD_SAME_TYPE",
    ],
);
pub(super) static EXTENSION_RANGE_REMOVED: Rule = wire(
    "EXTENSION_RANGE_REMOVED",
    "Numbers left to extensions stay so",
    "Somebody else's extension may use them.",
    &["EXTENSION_MESSAGE_NO_DELETE"],
);

pub(super) const RULES: &[&Rule] = &[
    &FIELD_RENUMBERED,
    &FIELD_TYPE_CHANGED,
    &FIELD_CARDINALITY_CHANGED,
    &FIELD_NUMBER_REUSED,
    &RESERVED_REMOVED,
    &FIELD_ONEOF_CHANGED,
    &FIELD_DEFAULT_CHANGED,
    &PACKAGE_RENAMED,
    &MESSAGE_RENAMED,
    &SERVICE_RENAMED,
    &METHOD_RENAMED,
    &METHOD_TYPE_CHANGED,
    &METHOD_STREAMING_CHANGED,
    &METHOD_IDEMPOTENCY_CHANGED,
    &ENUM_VALUE_RENUMBERED,
    &ENUM_OPENNESS_CHANGED,
    &EXTENSION_CHANGED,
    &EXTENSION_RANGE_REMOVED,
];
