//! Text of files in findings, cut to a length that fits a line.

/// Cuts text that is longer than 400 characters: a file may have a name of a megabyte.
pub(crate) fn clip(mut text: String) -> String {
    const LIMIT: usize = 400;
    if let Some((end, _)) = text.char_indices().nth(LIMIT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Quotes a value, cut to 60 characters.
pub(crate) fn shorten(text: &str) -> String {
    const LIMIT: usize = 60;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Quotes bytes, cut as by [`shorten`]. Printable ASCII is not escaped.
pub(crate) fn shorten_bytes(bytes: &[u8]) -> String {
    shorten(&bytes.escape_ascii().to_string())
}
