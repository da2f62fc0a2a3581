//! The text of an error: scenarios pass errors on as texts.

use std::fmt::Display;

pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}
