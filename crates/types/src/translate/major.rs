//! Major versions of packages: `v3`, `v4alpha`, `v2alpha1`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::ApiVersion;

/// Major version of a package, ordered by age: `v2alpha1` < `v2` < `v3` < `v4alpha` < `v4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Major {
    number: u32,
    stage: Stage,
}

/// Stage of a major before its release, with the number behind it; 0 without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    Alpha(u32),
    Beta(u32),
    Stable,
}

/// A text that is not a major version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("malformed major version {0:?}: expected a version such as v3 or v4alpha")]
pub struct MalformedMajor(String);

impl Major {
    /// Returns the stable major with this number.
    #[must_use]
    pub const fn stable(number: u32) -> Major {
        Major {
            number,
            stage: Stage::Stable,
        }
    }

    /// Returns the version of a package: that of its last segment that is one. `envoy.api.v2.core` has `v2`, and
    /// `envoy.type` has none.
    #[must_use]
    pub fn of_package(package: &str) -> Option<Major> {
        let mut segments = package.rsplit('.');
        segments.find_map(|segment| segment.parse().ok())
    }

    /// Returns the package without its version, which is the same in all majors.
    pub(super) fn base(package: &str) -> String {
        let mut segments: Vec<&str> = package.split('.').collect();
        if let Some(at) = segments
            .iter()
            .rposition(|one| one.parse::<Major>().is_ok())
        {
            segments.remove(at);
        }
        segments.join(".")
    }
}

impl From<ApiVersion> for Major {
    fn from(version: ApiVersion) -> Major {
        match version {
            ApiVersion::V2 => Major::stable(2),
            ApiVersion::V3 => Major::stable(3),
        }
    }
}

impl FromStr for Major {
    type Err = MalformedMajor;

    fn from_str(text: &str) -> Result<Major, MalformedMajor> {
        let read = || {
            let rest = text.strip_prefix('v')?;
            let end = rest.find(|c: char| !c.is_ascii_digit());
            let (number, stage) = rest.split_at(end.unwrap_or(rest.len()));
            let number = number.parse().ok()?;
            let step = |text: &str| match text {
                "" => Some(0),
                digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
                _ => None,
            };
            let stage = match (stage.strip_prefix("alpha"), stage.strip_prefix("beta")) {
                (Some(rest), _) => Stage::Alpha(step(rest)?),
                (_, Some(rest)) => Stage::Beta(step(rest)?),
                _ if stage.is_empty() => Stage::Stable,
                _ => return None,
            };
            Some(Major { number, stage })
        };
        read().ok_or_else(|| MalformedMajor(text.to_owned()))
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number)?;
        let (name, step) = match self.stage {
            Stage::Alpha(step) => ("alpha", step),
            Stage::Beta(step) => ("beta", step),
            Stage::Stable => return Ok(()),
        };
        f.write_str(name)?;
        if step > 0 {
            write!(f, "{step}")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v40_majors_are_ordered_by_age() {
        let texts = [
            "v2alpha", "v2alpha1", "v2beta3", "v2", "v3", "v4alpha", "v4", "v10",
        ];
        let majors = texts.map(|text| text.parse::<Major>().unwrap());
        assert!(majors.is_sorted(), "{majors:?}");
        assert_eq!(majors.map(|major| major.to_string()), texts);
        for text in [
            "",
            "v",
            "3",
            "V3",
            "v3x",
            "v3alphax",
            "v3alpha-1",
            "valpha",
            "v99999999999",
        ] {
            assert!(text.parse::<Major>().is_err(), "{text}");
        }
    }

    #[test]
    fn v40_package_has_the_version_of_its_last_version_segment() {
        let major = |package| Major::of_package(package).map(|major| major.to_string());
        assert_eq!(major("envoy.api.v2.core").as_deref(), Some("v2"));
        assert_eq!(major("shop.v4alpha").as_deref(), Some("v4alpha"));
        assert_eq!(major("envoy.type.matcher"), None);
        assert_eq!(Major::base("envoy.api.v2.core"), "envoy.api.core");
        assert_eq!(Major::base("envoy.type"), "envoy.type");
    }
}
