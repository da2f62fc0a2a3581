//! Where the resources of a document begin, without parsing it once more.

use crate::Position;

/// The places of `count` resources: of one, where the document begins; of a list (the document
/// itself, or `resources:`), where each item begins. Where the text looks otherwise than expected,
/// nothing is told.
pub(super) fn places(text: &str, count: usize) -> Vec<Option<Position>> {
    let begin = content(text).next();
    if count <= 1 {
        return vec![begin.map(position); count];
    }
    let brackets = begin.is_some_and(|(_, line)| line.trim_start().starts_with(['[', '{']));
    let items = if brackets {
        bracketed_items(text)
    } else {
        dashed_items(text)
    };
    match items.len() == count {
        true => items.into_iter().map(Some).collect(),
        false => vec![None; count],
    }
}

/// The objects of the outermost list of JSON: right in it, or in a list that a field of the
/// outermost object has.
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

/// The dashes of the outermost block sequence. Whatever is inside an item, scalars of several
/// lines too, is indented further than its dash.
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
        .map(position)
        .collect()
}

/// Lines that are not blank, comments, directives or markers, counted from 0.
fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| {
        let rest = line.trim_start();
        !(rest.is_empty() || rest.starts_with(['#', '%']) || line.starts_with("---"))
    })
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn position((line, text): (usize, &str)) -> Position {
    Position {
        line: line as u32 + 1,
        column: indentation(text) as u32 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, count: usize) -> Vec<(u32, u32)> {
        places(text, count)
            .into_iter()
            .flatten()
            .map(|p| (p.line, p.column))
            .collect()
    }

    #[test]
    fn one_resource_begins_with_its_document() {
        assert_eq!(at("a: 1\nl:\n- x: 1\n", 1), [(1, 1)]);
        assert_eq!(at("# c\n---\n\nname: x\n", 1), [(4, 1)]);
        assert_eq!(at("{\n  \"name\": 1 }", 1), [(1, 1)]);
    }

    #[test]
    fn items_of_a_list_begin_at_their_dashes() {
        assert_eq!(
            at(
                "- a: 1\n  l:\n  - x\n# - c\n- b: |\n    - no\n-\n  c: 1\n",
                3
            ),
            [(1, 1), (5, 1), (7, 1)]
        );
    }

    #[test]
    fn items_below_resources_begin_at_their_dashes() {
        assert_eq!(
            at(
                "version_info: 1\nresources:\n  - a: 1\n    l:\n    - x\n  - b: 1\n",
                2
            ),
            [(3, 3), (6, 3)]
        );
        assert_eq!(
            at("resources:\n- a: 1\n- b: 1\nnonce: x\n", 2),
            [(2, 1), (3, 1)]
        );
    }

    #[test]
    fn objects_of_a_json_list_begin_at_their_braces() {
        let list = "[\n  {\"a\": [{}, \"\\\\\\\"{\"]},\n  {}\n]";
        assert_eq!(at(list, 2), [(2, 3), (3, 3)]);
        assert_eq!(
            at("{\"version\": \"[{\", \"resources\": [{\"a\": {}}, {}]}", 2),
            [(1, 33), (1, 44)]
        );
    }

    #[test]
    fn nothing_is_told_of_what_is_not_understood() {
        assert_eq!(at("resources: [{},\n{}]", 2), []);
        assert_eq!(at("- a\n- b\n", 3), []);
    }
}
