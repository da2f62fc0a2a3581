//! Names: shared strings, and what the language derives from them.

use std::sync::Arc;

/// A string that many elements share.
pub type Name = Arc<str>;

/// The name of a field in JSON when none is given: `foo_bar` to `fooBar`.
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
