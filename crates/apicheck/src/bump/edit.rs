//! Edits that correct file versions.

use semver::Version;

use super::lock::{Lock, LockedFile};
use super::required::Bump;
use super::version::option_version;
use crate::hash::Hashes;
use crate::model::{File, Span, Tree};

/// Replacement of a stretch of a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edit {
    /// Import path of the file.
    pub path: String,
    /// Replaced stretch; an insertion if it is empty.
    pub span: Span,
    /// New text of the stretch.
    pub text: String,
}

/// Error: a version cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: unknown source position of option `{option}`: edit the file by hand")]
#[non_exhaustive]
pub struct EditError {
    /// Import path of the file.
    pub path: String,
    /// Full name of the option.
    pub option: String,
}

/// Corrects the versions: returns edits for files with their version in the file option `option` (a
/// full name), and updates `lock` for all other files.
///
/// # Errors
/// Fails if the tree was read without source information.
pub fn edits(
    tree: &Tree,
    hashes: &Hashes,
    bumps: &[Bump],
    option: &str,
    lock: &mut Lock,
) -> Result<Vec<Edit>, EditError> {
    let mut edits = Vec::new();
    for bump in bumps {
        let (Some(version), Some(file), Some(hash)) =
            (&bump.to, tree.file(&bump.path), hashes.file(&bump.path))
        else {
            continue;
        };
        if option_version(file, option).is_some() {
            edits.push(option_edit(file, option, version)?);
        } else {
            let version = version.clone();
            let hash = hash.local;
            lock.files
                .insert(bump.path.clone(), LockedFile { version, hash });
        }
    }
    Ok(edits)
}

fn option_edit(file: &File, option: &str, version: &Version) -> Result<Edit, EditError> {
    let number = file.options.message().and_then(|message| {
        let mut set = message.extensions();
        set.find_map(|(extension, _)| (extension.full_name() == option).then(|| extension.number()))
    });
    let place = number.and_then(|number| {
        let sources = file.sources.options.iter();
        let mut of_option = sources.filter(|(path, _)| path.first() == Some(&(number as i32)));
        of_option.find_map(|(_, source)| source.span)
    });
    match place {
        Some(span) => Ok(Edit {
            path: file.path.to_string(),
            span,
            text: format!("option ({option}) = \"{version}\";"),
        }),
        None => Err(EditError {
            path: file.path.to_string(),
            option: option.to_owned(),
        }),
    }
}

/// Applies the edits of one file to its text. Edits must not overlap.
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

/// Returns the byte offset of a line and column, which count from 1; columns count characters.
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
