//! Full names of messages in v2 and v3, and the translators between both.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::corrections::CORRECTIONS;
use crate::ApiVersion;
use crate::descriptor::{pool, v2_pool};
use crate::schema::{self, Message};
use crate::translate::{Options, Translator, UnknownFields};

const OPTIONS: Options = Options {
    corrections: Cow::Borrowed(CORRECTIONS),
    // The `xds` packages are younger than v2.
    roots: &["xds"],
    // An unknown number has a meaning in the other version that is not known either.
    unknown_fields: UnknownFields::Report,
};

static TO_V2: LazyLock<Translator> = LazyLock::new(|| {
    let (from, to) = (v2_pool().clone(), v2_pool().clone());
    Translator::tolerant(from, to, ApiVersion::V2.into(), OPTIONS)
});

static TO_V3: LazyLock<Translator> = LazyLock::new(|| {
    let (from, to) = (v2_pool().clone(), pool().clone());
    Translator::tolerant(from, to, ApiVersion::V3.into(), OPTIONS)
});

/// Returns the translator to an API version. The first call builds it, and [`v2_pool`].
pub(super) fn translator(to: ApiVersion) -> &'static Translator {
    match to {
        ApiVersion::V2 => &TO_V2,
        ApiVersion::V3 => &TO_V3,
    }
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
    TO_V2.name(v3).filter(|v2| *v2 != v3)
}

/// Returns the full name of the v3 message that replaced a v2 message; `None` if it was removed.
#[must_use]
pub fn v3_name(v2: &str) -> Option<&'static str> {
    TO_V3.name(v2).filter(|v3| *v3 != v2)
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
