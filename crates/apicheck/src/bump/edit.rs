//! The edits that put versions right.

use semver::Version;

use super::judge::Bump;
use super::lock::{Lock, Locked};
use super::version::written;
use crate::hash::Hashes;
use crate::model::{File, Span, Tree};

/// One edit of a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The import path of the file.
    pub path: String,
    /// What is replaced; nothing is when its end is its start.
    pub span: Span,
    /// What stands there afterwards.
    pub text: String,
}

/// Why a version cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: the place of its option `{option}` is not known; edit it by hand")]
pub struct CannotEdit {
    /// The import path of the file.
    pub path: String,
    /// The option.
    pub option: String,
}

/// What `bump --fix` does: edits of the files that have their version in the option of the full
/// name `option`, and new entries in `lock` for all others.
///
/// # Errors
/// When the tree was read without source information.
pub fn edits(
    tree: &Tree,
    hashes: &Hashes,
    bumps: &[Bump],
    option: &str,
    lock: &mut Lock,
) -> Result<Vec<Edit>, CannotEdit> {
    let mut edits = Vec::new();
    for bump in bumps {
        let (Some(version), Some(file), Some(hash)) =
            (&bump.to, tree.file(&bump.path), hashes.file(&bump.path))
        else {
            continue;
        };
        if written(file, option).is_some() {
            edits.push(option_edit(file, option, version)?);
        } else {
            let version = version.clone();
            let hash = hash.local;
            lock.files
                .insert(bump.path.clone(), Locked { version, hash });
        }
    }
    Ok(edits)
}

fn option_edit(file: &File, option: &str, version: &Version) -> Result<Edit, CannotEdit> {
    let number = file.options.message().and_then(|message| {
        let mut set = message.extensions();
        set.find_map(|(extension, _)| (extension.full_name() == option).then(|| extension.number()))
    });
    let place = number.and_then(|number| {
        let sources = file.option_sources.iter();
        let mut of_option = sources.filter(|(path, _)| path.first() == Some(&(number as i32)));
        of_option.find_map(|(_, source)| source.span)
    });
    match place {
        Some(span) => Ok(Edit {
            path: file.path.to_string(),
            span,
            text: format!("option ({option}) = \"{version}\";"),
        }),
        None => Err(CannotEdit {
            path: file.path.to_string(),
            option: option.to_owned(),
        }),
    }
}

/// `text` with the edits of one file done. Edits must not overlap.
#[must_use]
pub fn apply(text: &str, edits: &[Edit]) -> String {
    let mut stretches: Vec<(usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let span = edit.span;
            let start = offset(text, span.line, span.column);
            let end = offset(text, span.end_line, span.end_column);
            (start, end.max(start), edit.text.as_str())
        })
        .collect();
    stretches.sort_unstable();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end, replacement) in stretches {
        out.push_str(text.get(done..start).unwrap_or_default());
        out.push_str(replacement);
        done = end.max(done);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// The byte at a line and column, which count from 1, columns in characters.
fn offset(text: &str, line: u32, column: u32) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let rest = text.get(before..).unwrap_or_default();
    let in_line = rest
        .char_indices()
        .nth(column.saturating_sub(1) as usize)
        .map_or(rest.len(), |(at, _)| at);
    before + in_line
}

#[cfg(test)]
mod tests {
    use super::{Edit, apply};
    use crate::model::Span;

    #[test]
    fn edits_count_characters_and_lines() {
        let span = |line, column, end_line, end_column| Span {
            line,
            column,
            end_line,
            end_column,
        };
        let edit = |span, text: &str| Edit {
            path: String::new(),
            span,
            text: text.to_owned(),
        };
        let text = "aé1\nb2c\n";
        let edits = [edit(span(2, 2, 2, 3), "X"), edit(span(1, 3, 1, 4), "Y")];
        assert_eq!(apply(text, &edits), "aéY\nbXc\n");
        assert_eq!(apply(text, &[]), text);
    }
}
