//! Positions in YAML and JSON text: of a field path, and of each resource.
//!
//! Readers keep no positions. A position is computed only for a finding: the text is parsed again and followed along
//! the field path. JSON is parsed as YAML, of which it is a subset.

use serde_saphyr::granit_parser::{Event, Parser, Span, StrInput};

use crate::Position;
use crate::path::{FieldPath, Step};

/// Returns the position of the field at `path`. For a field that the text does not show (it is missing, or comes from
/// an alias or a merge key), returns the position of the innermost value around it.
pub(super) fn locate(text: &str, path: &FieldPath) -> Option<Position> {
    let mut events = Events(Parser::new_from_str(text));
    loop {
        let (event, span) = events.next()?;
        if !matches!(event, Event::StreamStart | Event::DocumentStart(..)) {
            return Some(events.follow(&event, span_position(span), path.steps()));
        }
    }
}

struct Events<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Events<'a> {
    /// Returns the next event but comments; `None` at the end of the text and at a syntax error.
    fn next(&mut self) -> Option<(Event<'a>, Span)> {
        loop {
            match self.0.next()?.ok()? {
                (Event::Comment(..), _) => {}
                event => return Some(event),
            }
        }
    }

    /// Follows `steps` into the node that `event` begins; `here` is the position of the node itself.
    fn follow(&mut self, event: &Event<'a>, here: Position, steps: &[Step]) -> Position {
        let inner = match (event, steps.split_first()) {
            (Event::SequenceStart(..), Some((Step::Index(index), rest))) => {
                self.follow_index(*index, rest)
            }
            (Event::MappingStart(..), Some((step, rest))) => self.follow_key(step, rest),
            _ => None,
        };
        inner.unwrap_or(here)
    }

    fn follow_key(&mut self, step: &Step, rest: &[Step]) -> Option<Position> {
        loop {
            let (key, span) = self.next()?;
            match &key {
                Event::MappingEnd => return None,
                Event::Scalar(text, ..) if names(step, text) => {
                    // The position of a value is that of its key, which editors show better.
                    let here = span_position(span);
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
            (item, span) => Some(self.follow(&item, span_position(span), rest)),
        }
    }

    /// Skips the rest of the node that `event` begins.
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

/// Returns whether a key of the text, as a proto or JSON name, is this step.
fn names(step: &Step, key: &str) -> bool {
    match step {
        Step::Field(name) => *name == key || is_json_name(key, name),
        Step::Named(name) => name == key || is_json_name(key, name),
        Step::Unknown(name) | Step::Key(name) => name == key,
        Step::Index(_) => false,
    }
}

/// Returns whether `json` is the lowerCamelCase form of `name`.
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
fn span_position(span: Span) -> Position {
    Position {
        line: span.start.line() as u32,
        column: span.start.col() as u32 + 1,
    }
}

/// Returns the positions of the `count` resources of a document, without parsing it again.
///
/// One resource begins where the document begins. The resources of a list (the document itself, or `resources:`) begin
/// at their items. `None` for all of them if the layout of the text is not recognized.
pub(super) fn resource_positions(text: &str, count: usize) -> Vec<Option<Position>> {
    let begin = content(text).next();
    if count <= 1 {
        return vec![begin.map(line_position); count];
    }
    let brackets = begin.is_some_and(|(_, line)| line.trim_start().starts_with(['[', '{']));
    let items = if brackets {
        bracketed_items(text)
    } else {
        dashed_items(text)
    };
    if items.len() == count {
        items.into_iter().map(Some).collect()
    } else {
        vec![None; count]
    }
}

/// Returns the positions of the objects in the outermost list of JSON text: the document is the list, or an object with
/// the list as a field.
fn bracketed_items(text: &str) -> Vec<Position> {
    let mut items = Vec::new();
    let (mut line, mut line_start) = (1, 0);
    let (mut open, mut quoted, mut escaped) = (Vec::new(), false, false);
    for (at, c) in text.char_indices() {
        match c {
            '\n' => (line, line_start) = (line + 1, at + 1),
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => {
                if c == '{' && matches!(open[..], ['['] | ['{', '[']) {
                    let column = text[line_start..at].chars().count() as u32 + 1;
                    items.push(Position { line, column });
                }
                open.push(c);
            }
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
    }
    items
}

/// Returns the positions of the dashes of the outermost block sequence. The content of an item, multi-line scalars
/// included, is indented further than its dash.
fn dashed_items(text: &str) -> Vec<Position> {
    let mut lines = content(text)
        .skip_while(|(_, line)| !(line.starts_with("- ") || line.starts_with("resources:")))
        .skip_while(|(_, line)| line.starts_with("resources:"))
        .peekable();
    let Some(indent) = lines.peek().map(|(_, line)| indentation(line)) else {
        return Vec::new();
    };
    lines
        .filter(|(_, line)| {
            let rest = line.get(indent..).filter(|_| indentation(line) == indent);
            rest.is_some_and(|rest| rest.starts_with("- ") || rest == "-")
        })
        .map(line_position)
        .collect()
}

/// Returns the lines with content, numbered from 0: not blank lines, comments, directives or document markers.
fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| {
        let rest = line.trim_start();
        !(rest.is_empty() || rest.starts_with(['#', '%']) || line.starts_with("---"))
    })
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn line_position((line, text): (usize, &str)) -> Position {
    Position {
        line: line as u32 + 1,
        column: indentation(text) as u32 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_at(text: &str, steps: &[Step]) -> (u32, u32) {
        let mut path = FieldPath::default();
        steps.iter().cloned().for_each(|step| path.push(step));
        locate(text, &path).map(|p| (p.line, p.column)).unwrap()
    }

    #[test]
    fn field_paths_are_located_in_yaml() {
        let text = "# c\na: 1\nfoo_bar:\n- x: {y: 2}\n- x:\n    k.z: 3\n";
        let (foo, x) = (Step::Field("foo_bar"), Step::Field("x"));
        assert_eq!(field_at(text, &[]), (2, 1));
        assert_eq!(field_at(text, &[Step::Field("a")]), (2, 1));
        assert_eq!(
            field_at(
                text,
                &[foo.clone(), Step::Index(0), x.clone(), Step::Field("y")]
            ),
            (4, 7)
        );
        assert_eq!(
            field_at(
                text,
                &[foo.clone(), Step::Index(1), x, Step::Key("k.z".into())]
            ),
            (6, 5)
        );
        assert_eq!(
            field_at(text, &[foo, Step::Index(7)]),
            (3, 1),
            "a missing item has the position of its list"
        );
    }

    #[test]
    fn field_paths_are_located_in_json() {
        let text = "{\n\t\"fooBar\": [\n\t\t{\"x\": null}\n\t]\n}";
        assert_eq!(
            field_at(
                text,
                &[Step::Field("foo_bar"), Step::Index(0), Step::Field("x")]
            ),
            (3, 4)
        );
    }

    #[test]
    fn fields_behind_aliases_have_the_position_of_the_alias() {
        let text = "a: &a {x: 1}\nb: *a\n";
        assert_eq!(
            field_at(text, &[Step::Field("b"), Step::Field("x")]),
            (2, 1)
        );
    }

    fn resources_at(text: &str, count: usize) -> Vec<(u32, u32)> {
        resource_positions(text, count)
            .into_iter()
            .flatten()
            .map(|p| (p.line, p.column))
            .collect()
    }

    #[test]
    fn single_resource_begins_at_its_document() {
        assert_eq!(resources_at("a: 1\nl:\n- x: 1\n", 1), [(1, 1)]);
        assert_eq!(resources_at("# c\n---\n\nname: x\n", 1), [(4, 1)]);
        assert_eq!(resources_at("{\n  \"name\": 1 }", 1), [(1, 1)]);
    }

    #[test]
    fn list_items_begin_at_their_dashes() {
        assert_eq!(
            resources_at(
                "- a: 1\n  l:\n  - x\n# - c\n- b: |\n    - no\n-\n  c: 1\n",
                3
            ),
            [(1, 1), (5, 1), (7, 1)]
        );
    }

    #[test]
    fn response_items_begin_at_their_dashes() {
        assert_eq!(
            resources_at(
                "version_info: 1\nresources:\n  - a: 1\n    l:\n    - x\n  - b: 1\n",
                2
            ),
            [(3, 3), (6, 3)]
        );
        assert_eq!(
            resources_at("resources:\n- a: 1\n- b: 1\nnonce: x\n", 2),
            [(2, 1), (3, 1)]
        );
    }

    #[test]
    fn json_list_items_begin_at_their_braces() {
        let list = "[\n  {\"a\": [{}, \"\\\\\\\"{\"]},\n  {}\n]";
        assert_eq!(resources_at(list, 2), [(2, 3), (3, 3)]);
        assert_eq!(
            resources_at("{\"version\": \"[{\", \"resources\": [{\"a\": {}}, {}]}", 2),
            [(1, 33), (1, 44)]
        );
    }

    #[test]
    fn unrecognized_layouts_have_no_positions() {
        assert_eq!(resources_at("resources: [{},\n{}]", 2), []);
        assert_eq!(resources_at("- a\n- b\n", 3), []);
    }
}
