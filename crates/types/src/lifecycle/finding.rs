//! The text of findings about deprecated elements.

use std::fmt;

use super::element::{Element, Part};
use super::policy::{Cause, Decision, Verdict};
use super::replacements::Replacement;

/// The use of a deprecated element in a resource, and the decision about it.
///
/// `Display` names element, replacement and, if the use is an error, the runtime key to paste.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeprecatedUse {
    /// The element.
    pub element: &'static Element,
    /// Whether the field is unset, and the element is the default value of its enum.
    pub is_default: bool,
    /// Whether the use is a warning or an error.
    pub decision: Decision,
}

impl DeprecatedUse {
    /// Returns the replacement by the clock, or else by the comments of the API.
    #[must_use]
    pub fn replacement(&self) -> Option<Replacement<'_>> {
        let of_clock = self.decision.entry.as_ref();
        let of_clock = of_clock.and_then(|entry| entry.replacement.as_ref());
        match of_clock {
            Some(Ok(element)) => Some(Replacement::Element(element)),
            Some(Err(reason)) => Some(Replacement::None(reason)),
            None => self.element.replacement(),
        }
    }

    /// Returns since when the element is deprecated: a day of the clock, or else an API version.
    #[must_use]
    pub fn since(&self) -> Option<String> {
        let of_clock = self.decision.entry.as_ref();
        let of_clock = of_clock.and_then(|entry| entry.since.clone());
        of_clock.or_else(|| Some(format!("API {}", self.element.since()?)))
    }

    /// Returns the first day of the next phase, if the clock has it.
    #[must_use]
    pub fn until(&self) -> Option<&str> {
        self.decision.entry.as_ref()?.until.as_deref()
    }
}

impl fmt::Display for DeprecatedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Element { name, key, .. } = self.element;
        let part = match (self.element.part(), self.is_default) {
            (Part::EnumValue, true) => "default value",
            (Part::EnumValue, false) => "value",
            (Part::Field, _) => "field",
        };
        write!(f, "deprecated {part} {name}")?;
        match self.decision.verdict {
            Verdict::Warned => {}
            Verdict::Overridden => {
                f.write_str(", allowed by the runtime although it is disallowed by default")?;
            }
            Verdict::Disallowed(Cause::Phase) => f.write_str(" is disallowed")?,
            Verdict::Disallowed(Cause::Runtime) => f.write_str(" is disallowed by the runtime")?,
        }
        match self.replacement() {
            Some(Replacement::Element(element)) => write!(f, ": use {element}")?,
            Some(Replacement::None(reason)) => write!(f, ": no replacement ({reason})")?,
            None => {}
        }
        match self.decision.verdict {
            Verdict::Warned => match self.until() {
                Some(until) => write!(f, "; disallowed from {until}"),
                None => Ok(()),
            },
            Verdict::Overridden => Ok(()),
            Verdict::Disallowed(_) => write!(
                f,
                "; to allow it for now, set the runtime key \"{key}\": true"
            ),
        }
    }
}
