//! What the terminal can and may show.

/// Whether colours are wanted: `NO_COLOR` set to anything but nothing says no (no-color.org).
pub(crate) fn colour_wanted() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !no_color && !dumb
}
