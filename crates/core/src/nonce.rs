//! Nonces, which a request echoes to answer a response.

use std::fmt;

/// Number of a response on its stream, from 1, counted over all types. So it is unique on the stream (S-28), even if
/// the same content is sent again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nonce(u64);

impl Nonce {
    /// Number of decimal digits of the largest nonce.
    pub(crate) const DIGITS: usize = 20;

    /// Returns the nonce of the next response.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Reads the nonce that a request echoes; `None` if this server never writes such text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        digits.then(|| text.parse().ok().map(Self)).flatten()
    }

    /// Writes the wire form without an allocation.
    pub(crate) fn digits(self, into: &mut [u8; Self::DIGITS]) -> &str {
        let mut rest = self.0;
        let mut at = into.len();
        while at > 0 {
            at -= 1;
            into[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        std::str::from_utf8(&into[at..]).unwrap_or_default()
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_nonce_is_read_back() {
        for number in [1, 9, 10, 1_234_567_890, u64::MAX] {
            let mut digits = [0; Nonce::DIGITS];
            let text = Nonce(number).digits(&mut digits);
            assert_eq!(text, number.to_string());
            assert_eq!(Nonce::parse(text), Some(Nonce(number)));
        }
    }

    #[test]
    fn s47_foreign_nonce_is_not_parsed() {
        for text in ["", "+1", "01", "0x1", "one", "99999999999999999999999"] {
            assert_eq!(Nonce::parse(text), None, "{text:?}");
        }
    }
}
