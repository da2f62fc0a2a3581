//! Facts about an API that its annotations lack, or state wrongly.

/// One correction of the annotations. The reason is part of the data: it says why the API is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// The message replaced another one than the annotation states.
    Previous {
        /// Full name of the message.
        message: &'static str,
        /// Full name of the message that it replaced.
        previous: &'static str,
        /// Why the annotation is not enough.
        reason: &'static str,
    },
    /// A field or an enum value got another name in the next major.
    Renamed {
        /// Full name of the message or enum in the older major.
        parent: &'static str,
        /// Name in the older major.
        old: &'static str,
        /// Name in the next major.
        new: &'static str,
        /// Why the annotation is not enough.
        reason: &'static str,
    },
    /// A deprecated field has a replacement in the same message, which takes its value if it is not set itself. It
    /// counts once a major has removed the deprecated field.
    Replaced {
        /// Full name of the message in the older major.
        parent: String,
        /// Name of the deprecated field.
        old: String,
        /// Name of the replacement.
        new: String,
    },
    /// A field has a fixed value whenever a message of an older major becomes this message.
    Fixed {
        /// Full name of the message in the newer major.
        message: &'static str,
        /// Name of the field, an enum or integer.
        field: &'static str,
        /// The value.
        value: i32,
        /// Why the old value is useless.
        reason: &'static str,
    },
}

/// Returns the replacement of a deprecated field.
pub(super) fn replaced<'a>(
    corrections: &'a [Correction],
    message: &str,
    name: &str,
) -> Option<&'a str> {
    corrections.iter().find_map(|one| match one {
        Correction::Replaced { parent, old, new } if (&**parent, &**old) == (message, name) => {
            Some(&**new)
        }
        _ => None,
    })
}

/// Returns the name that a correction gives to a field or enum value.
pub(super) fn renamed(
    corrections: &[Correction],
    parent: &str,
    name: &str,
) -> Option<&'static str> {
    corrections.iter().find_map(|one| match one {
        Correction::Renamed {
            parent: of,
            old,
            new,
            ..
        } if (*of, *old) == (parent, name) => Some(*new),
        _ => None,
    })
}
