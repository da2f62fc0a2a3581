//! Text blocks: comments, braces, blank lines.

use crate::model::Docs;

/// Option in printed form.
#[derive(Debug)]
pub(super) struct OptionText {
    /// Number of the field or extension; zero for options that the model does not contain.
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) value: String,
}

/// Maximum length of an unbroken line.
const WIDTH: usize = 100;

/// Prints a declaration with its comments.
pub(super) fn commented(docs: &Docs, text: &str) -> String {
    let mut out = String::new();
    for paragraph in &docs.detached {
        out += &comment(paragraph);
        out.push('\n');
    }
    if let Some(leading) = &docs.leading {
        out += &comment(leading);
    }
    let Some(trailing) = &docs.trailing else {
        return out + text;
    };
    let trailing = comment(trailing);
    match text.split_once(" {\n") {
        // The trailing comment of a block follows its brace. An empty line separates it from the
        // first item.
        Some((head, rest)) if !head.contains('\n') => {
            let apart = if rest == "}" { "" } else { "\n" };
            out + &format!(
                "{head} {{\n{}\n{apart}{rest}",
                indented(trailing.trim_end())
            )
        }
        _ => out + text + "\n" + trailing.trim_end(),
    }
}

/// Prints comment lines, each with its line end.
pub(super) fn comment(text: &str) -> String {
    text.strip_suffix('\n')
        .unwrap_or(text)
        .split('\n')
        .map(|line| format!("//{}\n", line.trim_end()))
        .collect()
}

/// Prints `head { items }` with indented items. Items with several lines are separated by empty
/// lines.
pub(super) fn block(head: &str, items: &[String]) -> String {
    if items.is_empty() {
        return format!("{head} {{\n}}");
    }
    format!("{head} {{\n{}\n}}", indented(&apart(items)))
}

/// Joins items line by line, with an empty line between neighbours if one has several lines or is a
/// comment.
pub(super) fn apart(items: &[String]) -> String {
    let mut out = String::new();
    let mut before: Option<&String> = None;
    for item in items {
        if let Some(before) = before {
            // Without the empty line, the comment would belong to its neighbour.
            let wide = [before, item]
                .iter()
                .any(|one| one.contains('\n') || one.starts_with("//"));
            out.push_str(if wide { "\n\n" } else { "\n" });
        }
        out += item;
        before = Some(item);
    }
    out
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| match line {
            "" => String::new(),
            line => format!("  {line}"),
        })
        .collect();
    lines.join("\n")
}

/// Prints `head [options]`, on several lines if it is long.
pub(super) fn head_with(head: &str, options: &[OptionText]) -> String {
    if options.is_empty() {
        return head.to_owned();
    }
    let each: Vec<String> = options
        .iter()
        .map(|option| format!("{} = {}", option.name, option.value))
        .collect();
    let line = format!("{head} [{}]", each.join(", "));
    if line.chars().count() < WIDTH {
        return line;
    }
    format!("{head} [\n  {}\n]", each.join(",\n  "))
}
