//! Shared strings, and names that protobuf derives.

use std::sync::Arc;

/// String that several elements share.
pub type Name = Arc<str>;

/// Returns the default JSON name of a field: `foo_bar` becomes `fooBar`.
pub(crate) fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' => upper = true,
            _ if std::mem::take(&mut upper) => json.push(c.to_ascii_uppercase()),
            _ => json.push(c),
        }
    }
    json
}
