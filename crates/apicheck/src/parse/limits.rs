//! How deep things may lie in each other: what is built by recursion must end before the stack does.

use super::Draft;
use super::error::{Error, Reason};
use super::source::Sources;
use super::token::{Kind, tokens};

/// Parts of a package, as in protoc.
const PARTS: usize = 100;

/// Parts of an option's name, levels of its value: about as deep as messages may nest in a text, for
/// which the parser's limit is 31. Nobody's options come near it.
pub(super) const LEVELS: usize = 32;

/// The packages with too many parts.
pub(super) fn packages(drafts: &[Draft]) -> Vec<Error> {
    let deep = drafts
        .iter()
        .filter(|draft| draft.proto.package().split('.').count() > PARTS);
    deep.map(|draft| {
        let span = Sources::of(draft).span(&[2]);
        let why = format!("the package has more than {PARTS} parts");
        Error::new(draft, span, Reason::Rule(why))
    })
    .collect()
}

/// Whether a value in text format has too many levels.
pub(super) fn is_deep(value: &str) -> bool {
    let mut depth = 0usize;
    tokens(value).any(|token| {
        match token.kind {
            Kind::Sign(b'{' | b'<' | b'[') => depth += 1,
            Kind::Sign(b'}' | b'>' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > LEVELS
    })
}
