//! SHA-256 hash as a value and as text.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// SHA-256 hash. Its text form has 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Error: a text is not a hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed hash `{0}`: expected 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Hashes the domain and then `parts`.
    pub(super) fn of<'a>(domain: &str, parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut sha = Sha256::new();
        sha.update(domain);
        for part in parts {
            sha.update(part);
        }
        Digest(sha.finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let wrong = || DigestError(text.to_owned());
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(wrong()),
        };
        let pairs = text.as_bytes().as_chunks::<2>();
        let (pairs, []) = pairs else {
            return Err(wrong());
        };
        if pairs.len() != 32 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn v25_hash_text_form_round_trips() {
        let digest = Digest::of("x", [b"y".as_slice()]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!("".parse::<Digest>().is_err());
        assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err());
        assert!("é".repeat(32).parse::<Digest>().is_err());
    }
}
