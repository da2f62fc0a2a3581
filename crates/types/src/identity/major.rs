//! Majors of the API, and the one that client and server use (V-48, V-49).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A major of the API: `v3`, or `v4alpha`, which comes before `v4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Major {
    number: u32,
    /// After the number, so that `v4alpha < v4`.
    is_stable: bool,
}

/// Text that is not a major.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed major {0:?}: expected v3 or v4alpha")]
pub struct InvalidMajor(pub String);

impl Major {
    /// The retired major that gRFC A30 replaces.
    pub const V2: Self = Self::stable(2);
    /// The current major.
    pub const V3: Self = Self::stable(3);

    /// Returns a stable major.
    #[must_use]
    pub const fn stable(number: u32) -> Self {
        Self {
            number,
            is_stable: true,
        }
    }

    /// Returns the unstable form of the next major.
    #[must_use]
    pub const fn alpha(number: u32) -> Self {
        Self {
            number,
            is_stable: false,
        }
    }

    /// Whether it is an alpha.
    #[must_use]
    pub fn is_alpha(self) -> bool {
        !self.is_stable
    }
}

impl FromStr for Major {
    type Err = InvalidMajor;

    fn from_str(text: &str) -> Result<Self, InvalidMajor> {
        let invalid = || InvalidMajor(text.chars().take(40).collect());
        let rest = text.strip_prefix('v').ok_or_else(invalid)?;
        let (digits, is_stable) = match rest.strip_suffix("alpha") {
            Some(digits) => (digits, false),
            None => (rest, true),
        };
        if digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let number = digits.parse().map_err(|_| invalid())?;
        Ok(Self { number, is_stable })
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alpha = if self.is_stable { "" } else { "alpha" };
        write!(f, "v{}{alpha}", self.number)
    }
}

/// Majors that one side supports. Alphas count only if that side has opted in to them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Majors {
    supported: BTreeSet<Major>,
    alpha: bool,
}

impl Majors {
    /// Opts in to alphas.
    #[must_use]
    pub fn allow_alpha(mut self) -> Self {
        self.alpha = true;
        self
    }

    /// Returns the majors of a server by the `server_features` in a gRPC bootstrap (gRFC A30): `xds_v3`, and likewise
    /// `xds_v4` or `xds_v4alpha`, which is the server's opt-in. Every server supports v2, which has no feature. Other
    /// strings are ignored.
    #[must_use]
    pub fn of_server<'a>(features: impl IntoIterator<Item = &'a str>) -> Self {
        let named = features.into_iter().filter_map(|feature| {
            let major = feature.strip_prefix("xds_")?;
            major.parse::<Major>().ok()
        });
        let mut majors: Self = named.collect();
        majors.alpha = majors.supported.iter().any(|major| major.is_alpha());
        majors.supported.insert(Major::V2);
        majors
    }

    /// Whether a major may be used.
    #[must_use]
    pub fn has(&self, major: Major) -> bool {
        self.supported.contains(&major) && (self.alpha || !major.is_alpha())
    }
}

impl FromIterator<Major> for Majors {
    fn from_iter<I: IntoIterator<Item = Major>>(majors: I) -> Self {
        Self {
            supported: majors.into_iter().collect(),
            alpha: false,
        }
    }
}

impl fmt::Display for Majors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.supported.is_empty() {
            return f.write_str("none");
        }
        for (index, major) in self.supported.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let note = if self.has(*major) {
                ""
            } else {
                " (not opted in)"
            };
            write!(f, "{comma}{major}{note}")?;
        }
        Ok(())
    }
}

/// Client and server have no major in common.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no common API version: the client allows {client}; the server supports {server}")]
#[non_exhaustive]
pub struct NoCommonMajor {
    /// Majors of the client.
    pub client: Majors,
    /// Majors of the server.
    pub server: Majors,
}

/// Returns the highest major that both sides support; an alpha only if both have opted in.
///
/// ```
/// use oxds_types::identity::{Major, Majors, negotiate};
///
/// let client: Majors = [Major::V2, Major::V3].into_iter().collect();
/// assert_eq!(negotiate(&client, &Majors::of_server(["xds_v3", "other"])), Ok(Major::V3));
/// assert_eq!(negotiate(&client, &Majors::of_server([])), Ok(Major::V2));
///
/// let current: Majors = [Major::V3].into_iter().collect();
/// assert_eq!(
///     negotiate(&current, &Majors::of_server([])).unwrap_err().to_string(),
///     "no common API version: the client allows v3; the server supports v2",
/// );
/// ```
///
/// # Errors
/// Client and server have no major in common.
pub fn negotiate(client: &Majors, server: &Majors) -> Result<Major, NoCommonMajor> {
    let mut common = client.supported.iter().rev().copied();
    let common = common.find(|major| client.has(*major) && server.has(*major));
    common.ok_or_else(|| NoCommonMajor {
        client: client.clone(),
        server: server.clone(),
    })
}
