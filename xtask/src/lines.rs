//! Bound of the length of comments in Rust files, which rustfmt does not check. Rows of tables and drawings (blocks of
//! code in documentation) cannot be wrapped and have no bound.

use crate::repository::{Tracked, tracked};

/// Most columns of a line that is a comment.
const COLUMNS: usize = 120;

/// Returns the comments that are too long.
pub(crate) fn check() -> Vec<String> {
    tracked(&["*.rs"]).iter().flat_map(long_comments).collect()
}

fn long_comments(file: &Tracked) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_drawing = false;
    for (line, number) in file.text.lines().zip(1..) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_drawing = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        in_drawing ^= text.starts_with("```");
        let columns = line.chars().count();
        if columns > COLUMNS && !in_drawing && !text.starts_with('|') {
            found.push(format!(
                "{}:{number}: a comment of {columns} columns, at most {COLUMNS} are allowed",
                file.path
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_beyond_the_bound_is_found() {
        let (fits, long) = ("é".repeat(117), "é".repeat(118));
        let text = format!("// {fits}\n    /// {long}\nlet a = \"{long}\";\n// {long}\n");
        let file = Tracked::new("a.rs", &text);
        let found = long_comments(&file);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:2: a comment of 126 columns"));
        assert!(found[1].starts_with("a.rs:4: a comment of 121 columns"));
    }

    #[test]
    fn tables_and_drawings_have_no_bound() {
        let long = "─".repeat(118);
        let text = format!("//! | {long} |\n//! ```text\n//! {long}\n//! ```\nfn f() {{}}\n");
        let file = Tracked::new("a.rs", &text);
        assert_eq!(long_comments(&file), Vec::<String>::new());
    }
}
