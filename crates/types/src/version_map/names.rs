//! Full names of messages in v2 and v3, from the annotations of the API (`udpa.annotations.versioning`).

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{ExtensionDescriptor, MessageDescriptor};

use crate::ApiVersion;
use crate::descriptor::{pool, v2_pool};
use crate::schema::{self, Message};

static NAMES: LazyLock<MessageNames> = LazyLock::new(MessageNames::read);

#[derive(Default)]
struct MessageNames {
    to_v2: HashMap<String, String>,
    to_v3: HashMap<String, String>,
}

/// Returns the full name of the v2 message that a v3 message replaced.
///
/// `None` if v2 had no such message, or if the message is not part of the versioned API (`google.protobuf.Any`).
///
/// ```
/// use oxds_types::version_map::{v2_name, v3_name};
///
/// let v3 = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
/// assert_eq!(v2_name(v3), Some("envoy.api.v2.auth.UpstreamTlsContext"));
/// assert_eq!(v3_name("envoy.api.v2.auth.UpstreamTlsContext"), Some(v3));
/// ```
#[must_use]
pub fn v2_name(v3: &str) -> Option<&'static str> {
    NAMES.to_v2.get(v3).map(String::as_str)
}

/// Returns the full name of the v3 message that replaced a v2 message; `None` if it was removed.
#[must_use]
pub fn v3_name(v2: &str) -> Option<&'static str> {
    NAMES.to_v3.get(v2).map(String::as_str)
}

/// Returns the schema of a message in v3: its own, or that of its successor.
pub(crate) fn successor(schema: &'static Message) -> Option<&'static Message> {
    match schema.api {
        ApiVersion::V3 => Some(schema),
        ApiVersion::V2 => schema::find_in(ApiVersion::V3, current_name(schema)),
    }
}

/// Returns the full name of a message in v3; its own name if it has no successor.
pub(crate) fn current_name(schema: &Message) -> &str {
    match schema.api {
        ApiVersion::V3 => schema.full_name(),
        ApiVersion::V2 => v3_name(schema.full_name()).unwrap_or(schema.full_name()),
    }
}

impl MessageNames {
    fn read() -> MessageNames {
        let mut names = MessageNames::default();
        let Some(versioning) = pool().get_extension_by_name("udpa.annotations.versioning") else {
            return names;
        };
        for message in pool().all_messages() {
            let Some(v2) = predecessor(&message, &versioning) else {
                continue;
            };
            let v3 = message.full_name().to_owned();
            names.to_v3.insert(v2.clone(), v3.clone());
            names.to_v2.insert(v3, v2);
        }
        names
    }
}

/// Returns the v2 name in the annotation of a v3 message.
fn predecessor(message: &MessageDescriptor, versioning: &ExtensionDescriptor) -> Option<String> {
    let options = message.options();
    let record = options.get_extension(versioning);
    let previous = record
        .as_message()?
        .get_field_by_name("previous_message_type")?;
    let previous = previous.as_str().filter(|name| !name.is_empty())?;
    let in_v2 = |name: &str| v2_pool().get_message_by_name(name).is_some();
    if in_v2(previous) {
        return Some(previous.to_owned());
    }
    // The annotation of `ExtAuthz` names a v3 message that never existed: it means the v2 message of that name.
    let meant = previous.replace(".v3.", ".v2.");
    in_v2(&meant).then_some(meant)
}
