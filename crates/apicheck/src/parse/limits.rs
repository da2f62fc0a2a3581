//! Nesting limits: recursive code must stop before the stack overflows.

use super::draft::Draft;
use super::error::{Error, Reason};
use super::source::Sources;
use super::token::{TokenKind, tokens};

/// Maximum number of parts of a package, as in protoc.
const PARTS: usize = 100;

/// Maximum number of parts of an option name, and of levels of its value. The parser allows 31
/// levels of nested messages. Real options are far below that.
pub(super) const LEVELS: usize = 32;

/// Reports packages with too many parts.
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

/// Returns whether a value in text format has too many levels.
pub(super) fn is_deep(value: &str) -> bool {
    let mut depth = 0usize;
    tokens(value).any(|token| {
        match token.kind {
            TokenKind::Sign(b'{' | b'<' | b'[') => depth += 1,
            TokenKind::Sign(b'}' | b'>' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > LEVELS
    })
}
