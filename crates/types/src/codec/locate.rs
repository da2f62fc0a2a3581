//! From a field path back to line and column, for JSON and YAML.
//!
//! Only wanted when something is wrong, so nothing is kept while reading: the text is parsed once
//! more, and followed along the path. (JSON is read as the YAML that it is.)

use serde_saphyr::granit_parser::{Event, Parser, Span, StrInput};

use crate::Position;
use crate::path::{Path, Step};

/// The place of the field that a path leads to, or of the innermost thing around it that the
/// text shows: what comes from an alias or a merge is not followed.
pub(super) fn locate(text: &str, path: &Path) -> Option<Position> {
    let mut events = Events(Parser::new_from_str(text));
    loop {
        let (event, span) = events.next()?;
        if !matches!(event, Event::StreamStart | Event::DocumentStart(..)) {
            return Some(events.follow(&event, position(span), path.steps()));
        }
    }
}

struct Events<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Events<'a> {
    /// `None` at the end, and where the text is no YAML.
    fn next(&mut self) -> Option<(Event<'a>, Span)> {
        loop {
            match self.0.next()?.ok()? {
                (Event::Comment(..), _) => {}
                event => return Some(event),
            }
        }
    }

    /// Follows `steps` into the node that `event` begins. The node itself is told to be `here`.
    fn follow(&mut self, event: &Event<'a>, here: Position, steps: &[Step]) -> Position {
        let further = match (event, steps.split_first()) {
            (Event::SequenceStart(..), Some((Step::Index(index), rest))) => {
                self.follow_index(*index, rest)
            }
            (Event::MappingStart(..), Some((step, rest))) => self.follow_key(step, rest),
            _ => None,
        };
        further.unwrap_or(here)
    }

    fn follow_key(&mut self, step: &Step, rest: &[Step]) -> Option<Position> {
        loop {
            let (key, span) = self.next()?;
            match &key {
                Event::MappingEnd => return None,
                Event::Scalar(text, ..) if names(step, text) => {
                    // A value is at its key, which says more.
                    let here = position(span);
                    return Some(match self.next() {
                        Some((value, _)) => self.follow(&value, here, rest),
                        None => here,
                    });
                }
                _ => {
                    self.skip(&key)?;
                    let (value, _) = self.next()?;
                    self.skip(&value)?;
                }
            }
        }
    }

    fn follow_index(&mut self, index: usize, rest: &[Step]) -> Option<Position> {
        for _ in 0..index {
            let (item, _) = self.next()?;
            if matches!(item, Event::SequenceEnd) {
                return None;
            }
            self.skip(&item)?;
        }
        match self.next()? {
            (Event::SequenceEnd, _) => None,
            (item, span) => Some(self.follow(&item, position(span), rest)),
        }
    }

    /// Passes the rest of the node that `event` begins.
    fn skip(&mut self, event: &Event<'a>) -> Option<()> {
        let mut depth = usize::from(opens(event));
        while depth > 0 {
            match self.next()?.0 {
                Event::MappingEnd | Event::SequenceEnd => depth -= 1,
                event => depth += usize::from(opens(&event)),
            }
        }
        Some(())
    }
}

fn opens(event: &Event<'_>) -> bool {
    matches!(event, Event::MappingStart(..) | Event::SequenceStart(..))
}

/// Whether a key, in either spelling, takes this step.
fn names(step: &Step, key: &str) -> bool {
    match step {
        Step::Field(name) => *name == key || is_json_name(key, name),
        Step::Unknown(name) | Step::Key(name) => name == key,
        Step::Index(_) => false,
    }
}

/// Whether `json` is the lowerCamelCase of `name`.
fn is_json_name(json: &str, name: &str) -> bool {
    let mut upper = false;
    let camel = name.chars().filter_map(|c| {
        let c = if std::mem::take(&mut upper) {
            c.to_ascii_uppercase()
        } else {
            c
        };
        upper = c == '_';
        (c != '_').then_some(c)
    });
    camel.eq(json.chars())
}

/// The parser counts columns from 0.
fn position(span: Span) -> Position {
    Position {
        line: span.start.line() as u32,
        column: span.start.col() as u32 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, steps: &[Step]) -> (u32, u32) {
        let mut path = Path::default();
        steps.iter().cloned().for_each(|step| path.push(step));
        locate(text, &path).map(|p| (p.line, p.column)).unwrap()
    }

    #[test]
    fn paths_are_found_in_yaml() {
        let text = "# c\na: 1\nfoo_bar:\n- x: {y: 2}\n- x:\n    k.z: 3\n";
        let (foo, x) = (Step::Field("foo_bar"), Step::Field("x"));
        assert_eq!(at(text, &[]), (2, 1));
        assert_eq!(at(text, &[Step::Field("a")]), (2, 1));
        assert_eq!(
            at(
                text,
                &[foo.clone(), Step::Index(0), x.clone(), Step::Field("y")]
            ),
            (4, 7)
        );
        assert_eq!(
            at(
                text,
                &[foo.clone(), Step::Index(1), x, Step::Key("k.z".into())]
            ),
            (6, 5)
        );
        assert_eq!(
            at(text, &[foo, Step::Index(7)]),
            (3, 1),
            "what is missing is where it would be"
        );
    }

    #[test]
    fn paths_are_found_in_json() {
        let text = "{\n\t\"fooBar\": [\n\t\t{\"x\": null}\n\t]\n}";
        assert_eq!(
            at(
                text,
                &[Step::Field("foo_bar"), Step::Index(0), Step::Field("x")]
            ),
            (3, 4)
        );
    }

    #[test]
    fn aliases_are_not_followed() {
        let text = "a: &a {x: 1}\nb: *a\n";
        assert_eq!(at(text, &[Step::Field("b"), Step::Field("x")]), (2, 1));
    }
}
