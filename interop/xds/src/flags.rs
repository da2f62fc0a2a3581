//! Flags that both programs share.

/// A flag as the suite writes it: `--flag`, `--flag=true`, `--flag=False`.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// A flag for a feature that oxds does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{flag} is not supported: oxds has no {what}")]
pub struct Unsupported {
    /// Name of the flag.
    pub flag: &'static str,
    /// The missing feature.
    pub what: &'static str,
}

impl Unsupported {
    /// Returns an error if the flag was set.
    pub(crate) fn unless_off(self, on: bool) -> Result<(), Self> {
        if on { Err(self) } else { Ok(()) }
    }
}
