//! Where the resources of a document begin, without parsing it once more.

use crate::Position;

/// The places of `count` resources: of one, where the document begins; of the items of a block
/// sequence (the document itself, or below `resources:`), where each begins. Nothing is told of
/// other forms, such as JSON's lists.
pub(super) fn places(text: &str, count: usize) -> Vec<Option<Position>> {
    let mut items = items(text);
    if items.len() == count && count > 0 {
        return items.drain(..).map(Some).collect();
    }
    let whole = (count == 1)
        .then(|| content(text).next().map(position))
        .flatten();
    vec![whole; count]
}

/// The dashes of the outermost block sequence. Whatever is inside an item, scalars of several
/// lines too, is indented further than its dash.
fn items(text: &str) -> Vec<Position> {
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
    fn nothing_is_told_of_what_is_not_understood() {
        assert_eq!(at("[{}, {}]", 2), []);
        assert_eq!(at("resources: [{},\n{}]", 2), []);
    }
}
