//! Collections: `xdstp://authority/type/path/*` names what is directly below a path (xRFC TP1).

use super::WILDCARD;

/// The collection that a name is in: the same path, but for its last part, and the same context parameters.
#[must_use]
pub fn collection_of(name: &str) -> Option<String> {
    let (path, context) = parts(name)?;
    let (above, last) = path.rsplit_once('/')?;
    (last != "*").then(|| format!("{above}/*{context}"))
}

/// Whether a name is that of an `xdstp` collection.
#[must_use]
pub fn is_collection(name: &str) -> bool {
    parts(name).is_some_and(|(path, _)| path.ends_with("/*"))
}

/// Whether a name stands for more than one resource: a collection, or all there are.
#[must_use]
pub fn is_of_many(name: &str) -> bool {
    name == WILDCARD || is_collection(name)
}

/// The path of an `xdstp` name, and its context parameters with their `?`.
pub(crate) fn parts(name: &str) -> Option<(&str, &str)> {
    name.starts_with("xdstp:").then(|| {
        let at = name.find('?').unwrap_or(name.len());
        name.split_at(at)
    })
}
