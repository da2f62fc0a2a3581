//! Which message of v3 took the place of which of v2, by the API's own record.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{ExtensionDescriptor, MessageDescriptor};

use crate::descriptor::{pool, v2_pool};

static NAMES: LazyLock<Names> = LazyLock::new(Names::read);

#[derive(Default)]
struct Names {
    to_v2: HashMap<String, String>,
    to_v3: HashMap<String, String>,
}

/// Full name of the v2 message whose place a v3 message took. `None`: v2 had nothing like it, or
/// the message is not of the versioned API (`google.protobuf.Any`).
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

/// Full name of the v3 message that took the place of a v2 message; `None` where none did.
#[must_use]
pub fn v3_name(v2: &str) -> Option<&'static str> {
    NAMES.to_v3.get(v2).map(String::as_str)
}

impl Names {
    fn read() -> Names {
        let mut names = Names::default();
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
    // The record of `ExtAuthz` names a v3 message that never was; the v2 one of that name is meant.
    let meant = previous.replace(".v3.", ".v2.");
    in_v2(&meant).then_some(meant)
}
