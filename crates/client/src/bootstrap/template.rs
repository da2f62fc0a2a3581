//! Listener names from templates (gRFC A47).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that a path segment must escape: all but those of RFC 3986's `pchar` (gRFC A47).
pub(crate) const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// Replaces every `%s` of a template by the service (C-32).
pub(crate) fn fill(template: &str, service: &str) -> String {
    if template.starts_with("xdstp:") {
        // gRFC A47: in xdstp names the service is percent-encoded, except for its slashes (C-39, C-40).
        let segments: Vec<String> = service.split('/').map(encode).collect();
        template.replace("%s", &segments.join("/"))
    } else {
        template.replace("%s", service)
    }
}

/// Percent-encodes a path segment.
pub(crate) fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, PATH_SEGMENT).to_string()
}
