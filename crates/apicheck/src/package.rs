//! Package names split into parts: `envoy.config.core.v3`, `envoy.service.tap.v4alpha`.

use std::fmt;

/// Parts of a package name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PackageName<'n> {
    /// Whole name of the package.
    pub full: &'n str,
    /// Part before the version: `envoy.config.core`. The whole name without a version.
    pub base: &'n str,
    /// First component that is a version.
    pub version: Option<Version>,
    /// Part after the version, which should be empty: `core` in `envoy.api.v2.core`.
    pub rest: &'n str,
}

/// Version component of a package name: `v3`, `v4alpha`, `v1beta2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Version {
    /// Number of the major.
    pub major: u32,
    /// Stability stage of the version.
    pub stage: Stage,
}

/// Stability stage of a version. Later variants are more stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// `v3test…`: for tests only.
    Test,
    /// `v3alpha`, `v3alpha2`; 0 without a number.
    Alpha(u32),
    /// `v3beta`, `v3beta2`; 0 without a number.
    Beta(u32),
    /// `v3`, without a suffix.
    Stable,
}

impl<'n> PackageName<'n> {
    /// Splits a package name.
    #[must_use]
    pub fn of(full: &'n str) -> Self {
        let mut start = 0;
        for part in full.split('.') {
            let end = start + part.len();
            if let Some(version) = Version::of(part) {
                return PackageName {
                    full,
                    base: full[..start].trim_end_matches('.'),
                    version: Some(version),
                    rest: full[end..].trim_start_matches('.'),
                };
            }
            start = end + 1;
        }
        PackageName {
            full,
            base: full,
            version: None,
            rest: "",
        }
    }

    /// Returns whether the name has an unstable version.
    #[must_use]
    pub fn is_unstable(&self) -> bool {
        self.version
            .is_some_and(|version| version.stage != Stage::Stable)
    }

    /// Returns the parts that all versions of this package share.
    #[must_use]
    pub fn family(&self) -> (&'n str, &'n str) {
        (self.base, self.rest)
    }
}

impl Version {
    /// Parses a name component, or returns `None` if it is not a version.
    #[must_use]
    pub fn of(component: &str) -> Option<Version> {
        let digits = component.strip_prefix('v')?;
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let (major, stage) = digits.split_at(end);
        if major.starts_with('0') {
            return None;
        }
        let major = major.parse().ok()?;
        let number = |text: &str| {
            if text.is_empty() {
                Some(0)
            } else {
                text.parse().ok().filter(|number| *number > 0)
            }
        };
        let stage = match stage {
            "" => Stage::Stable,
            _ => match (stage.strip_prefix("alpha"), stage.strip_prefix("beta")) {
                (Some(alpha), _) => Stage::Alpha(number(alpha)?),
                (_, Some(beta)) => Stage::Beta(number(beta)?),
                _ if stage.starts_with("test") => Stage::Test,
                _ => return None,
            },
        };
        Some(Version { major, stage })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.major)?;
        match self.stage {
            Stage::Stable => Ok(()),
            Stage::Test => write!(f, "test"),
            Stage::Alpha(0) => write!(f, "alpha"),
            Stage::Alpha(number) => write!(f, "alpha{number}"),
            Stage::Beta(0) => write!(f, "beta"),
            Stage::Beta(number) => write!(f, "beta{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_only_version_components_parse_as_versions() {
        let of = |text| Version::of(text).map(|version| version.to_string());
        for version in ["v1", "v3", "v4alpha", "v4alpha2", "v1beta1"] {
            assert_eq!(of(version).as_deref(), Some(version));
        }
        for other in [
            "v",
            "v0",
            "v03",
            "vhost",
            "v1alpha0",
            "core",
            "v2x",
            "v99999999999",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn v2_component_after_the_version_is_separated() {
        let name = PackageName::of("envoy.api.v2.core");
        assert_eq!((name.base, name.rest), ("envoy.api", "core"));
        assert_eq!(PackageName::of("google.protobuf").version, None);
        assert_eq!(PackageName::of("").base, "");
        assert!(PackageName::of("a.v4alpha").is_unstable());
        assert!(Version::of("v4alpha") < Version::of("v4"));
    }
}
