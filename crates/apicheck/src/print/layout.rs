//! Text blocks: comments, braces, blank lines.

use crate::model::Docs;

/// An option as it is written.
#[derive(Debug)]
pub(super) struct Entry {
    /// The field or extension that it sets; zero when it is none of the model's.
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) value: String,
}

/// The longest line that is not broken.
const WIDTH: usize = 100;

/// A declaration with the comments around it.
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
        // Of a block, it is what follows the brace; an empty line keeps it from the first item.
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

/// Lines of comment, each with its end.
pub(super) fn comment(text: &str) -> String {
    text.strip_suffix('\n')
        .unwrap_or(text)
        .split('\n')
        .map(|line| format!("//{}\n", line.trim_end()))
        .collect()
}

/// `head { items }`, each item indented; items of more than one line stand apart.
pub(super) fn block(head: &str, items: &[String]) -> String {
    if items.is_empty() {
        return format!("{head} {{\n}}");
    }
    format!("{head} {{\n{}\n}}", indented(&apart(items)))
}

/// Items below each other, with an empty line where one of two neighbours has several lines or is a
/// comment.
pub(super) fn apart(items: &[String]) -> String {
    let mut out = String::new();
    let mut before: Option<&String> = None;
    for item in items {
        if let Some(before) = before {
            // A comment that stands alone would belong to its neighbour.
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

/// `head [options]`, broken into lines when it is long.
pub(super) fn head_with(head: &str, options: &[Entry]) -> String {
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
