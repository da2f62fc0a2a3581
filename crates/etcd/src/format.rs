//! Version of the layout of keys and values in etcd (G-4).

/// Version of the layout that this build reads and writes.
pub const FORMAT: u32 = 1;

/// Reason why this build does not read a prefix, a head or a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A newer build wrote it.
    #[error(
        "the format is {found}, and this build reads format {FORMAT}: expected a build that reads format {found}"
    )]
    Newer {
        /// Format that was found.
        found: u32,
    },
    /// The value of the key `format` is not a positive number.
    #[error("malformed format {found:?}: expected a positive number, such as \"{FORMAT}\"")]
    Malformed {
        /// Beginning of the value.
        found: String,
    },
}

/// Checks the format of a prefix, a head or a value.
///
/// # Errors
/// The format is newer than this build's, or zero.
pub fn check(found: u32) -> Result<(), FormatError> {
    match found {
        0 => Err(FormatError::Malformed { found: "0".into() }),
        1..=FORMAT => Ok(()),
        found => Err(FormatError::Newer { found }),
    }
}

/// Checks the value of the key `format`.
///
/// # Errors
/// The format is newer than this build's, or the value is not a number.
pub fn check_key(value: &[u8]) -> Result<(), FormatError> {
    let text = String::from_utf8_lossy(value);
    match text.trim().parse() {
        Ok(found) => check(found),
        Err(_) => Err(FormatError::Malformed {
            found: text.chars().take(20).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g4_newer_format_states_both_numbers() {
        assert_eq!(check_key(b"1"), Ok(()));
        assert_eq!(
            check_key(b"1\n"),
            Ok(()),
            "as `etcdctl put` from a file writes it"
        );
        let error = check_key(b"7").expect_err("newer").to_string();
        assert!(
            error.contains("the format is 7") && error.contains("format 1"),
            "{error}"
        );
    }

    #[test]
    fn g4_format_that_is_not_a_number_is_an_error() {
        for malformed in ["", "0", "-1", "one", "99999999999"] {
            let error = check_key(malformed.as_bytes()).expect_err(malformed);
            let expected = FormatError::Malformed {
                found: malformed.into(),
            };
            assert_eq!(error, expected);
        }
    }
}
