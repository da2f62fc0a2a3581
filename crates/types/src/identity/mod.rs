//! Identity of a client: user agent, extensions, features and versions (V-49 to V-54).
//!
//! ```text
//!  Node, VersionedTypeUrl ──► ClientApi ──► supports(field) ──► Yes, No, Unknown
//!  majors of client and server ──► negotiate ──► highest common one, or an error with both sets
//! ```
//!
//! | file | content |
//! |---|---|
//! | `version` | [`SemVer`]; the user agent as text |
//! | `features` | [`ClientFeatures`]: the registry of client features |
//! | `major` | [`Majors`] and [`negotiate`] |
//! | `support` | [`ClientApi`] and the requirements of fields |

mod features;
mod major;
mod support;
#[cfg(test)]
mod tests;
mod version;

pub use features::{ClientFeatures, InvalidFeature, VERSIONED_TYPE_URLS};
pub use major::{InvalidMajor, Major, Majors, NoCommonMajor, negotiate};
pub use support::{ClientApi, FieldCatalogue, Requirement, Support};
pub use version::{SemVer, user_agent};
