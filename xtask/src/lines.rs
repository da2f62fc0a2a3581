//! Bound of the length of comments in Rust files, which rustfmt does not check.

use crate::repository::{Tracked, tracked};

/// Most columns of a line that is a comment.
const COLUMNS: usize = 120;

/// Returns the comments that are too long.
pub(crate) fn check() -> Vec<String> {
    tracked(&["*.rs"]).iter().flat_map(long_comments).collect()
}

fn long_comments(file: &Tracked) -> Vec<String> {
    let lines = file.text.lines().zip(1..);
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let columns = lines.map(|(line, number)| (line, number, line.chars().count()));
    let long = columns.filter(|(line, _, columns)| *columns > COLUMNS && is_comment(line));
    long.map(|(_, number, columns)| {
        format!(
            "{}:{number}: a comment of {columns} columns, at most {COLUMNS} are allowed",
            file.path
        )
    })
    .collect()
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
}
